package main

import (
	"flag"
	"io"
	"log/slog"

	"k8s.io/klog/v2"
)

// setUpLogging makes the default logger, and sends what client-go logs through klog the same way.
// Both level and format have been validated: an unknown one is info, text.
func setUpLogging(w io.Writer, level, format string) {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // leaves info where the text is unknown
	options := &slog.HandlerOptions{Level: least}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	klog.SetSlogLogger(logger)
	if least <= slog.LevelDebug {
		verbosity := flag.NewFlagSet("klog", flag.PanicOnError)
		klog.InitFlags(verbosity)
		_ = verbosity.Set("v", "4") // klog's V(4) is slog's debug
	}
}
