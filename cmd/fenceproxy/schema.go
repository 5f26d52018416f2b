package main

import (
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/config"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: `Print the JSON Schema of the configuration file. Editors with a YAML language
server show and complete settings by it, where the file begins with

  # yaml-language-server: $schema=./fenceproxy.schema.json

The schema knows the form of a file; fenceproxy check knows what it means.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.JSONSchema())
			return err
		},
	}
}
