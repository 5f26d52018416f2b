package config

import _ "embed"

//go:embed reference.yaml
var reference string

// Reference returns the annotated reference file: every setting of this
// version with its default. Each call returns a copy of its own.
func Reference() []byte { return []byte(reference) }
