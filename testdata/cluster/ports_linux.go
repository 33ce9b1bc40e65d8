package main

import (
	"fmt"
	"syscall"
)

// soReusePort is SO_REUSEPORT, which package syscall does not name on every architecture.
const soReusePort = 0xf

// reservePort returns a free port on loopback and keeps it bound, so that no other program gets it, also
// while the server that uses it is stopped. The server must ask for SO_REUSEPORT as well. A socket
// that does not listen takes no connections away from it.
func reservePort() (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1); err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("reserving a port: %w", err)
	}
	return address.(*syscall.SockaddrInet4).Port, nil // the socket lives as long as this process
}
