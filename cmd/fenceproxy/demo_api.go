package main

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/demo"
)

// newDemoAPI serves the legacy API of the README.
func newDemoAPI() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Serve a small API to try the proxy on: it keeps what is PUT, in memory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return &exitError{exitFailed, err}
			}
			srv := &http.Server{Handler: demo.API(), ReadHeaderTimeout: 10 * time.Second}
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9000", "where it listens")
	return cmd
}
