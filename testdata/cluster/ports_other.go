//go:build !linux

package main

import (
	"fmt"
	"net"
)

// reservePort returns a port that is free on loopback now. Other systems than Linux may give connections
// to a bound socket that does not listen, so it cannot be kept.
func reservePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
