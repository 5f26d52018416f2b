package config

// PathPolicy says which targets that are not canonical a rule lets pass, and
// which spellings its upstream takes for one resource. Each setting relaxes
// one thing.
type PathPolicy struct {
	EncodedSlash EncodedSlash `yaml:"encoded_slash"`
	Params       Params       `yaml:"params"`
	// Normalize folds a target to its canonical form and forwards that form.
	Normalize bool `yaml:"normalize"`
	// CaseInsensitive gives spellings that differ in letter case one key.
	CaseInsensitive bool          `yaml:"case_insensitive"`
	TrailingSlash   TrailingSlash `yaml:"trailing_slash"`
}

// EncodedSlash says what becomes of a target with %2F.
type EncodedSlash string

const (
	// SlashReject answers path-not-canonical.
	SlashReject EncodedSlash = "reject"
	// SlashSegment lets it stay inside its segment.
	SlashSegment EncodedSlash = "segment"
)

// Params says what becomes of a target with ; parameters.
type Params string

const (
	// ParamsReject answers path-not-canonical.
	ParamsReject Params = "reject"
	// ParamsKeep takes them for a part of the value.
	ParamsKeep Params = "keep"
)

// TrailingSlash says how a path with a slash at its end stands to the one
// without.
type TrailingSlash string

const (
	// SlashDistinct tells the two apart, and refuses one that looks like an
	// alias of another resource.
	SlashDistinct TrailingSlash = "distinct"
	// SlashSame gives them one key.
	SlashSame TrailingSlash = "same"
)
