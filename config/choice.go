package config

// Format says how a fencing token is spelt.
type Format string

const (
	// Decimal tokens are 1 to 20 digits, at most 2^64-1.
	Decimal Format = "decimal"
	// Hex tokens are 1 to 16 hex digits of either case, after 0x or not.
	Hex Format = "hex"
	// Composite tokens are two decimal ones joined by ".", ":" or "-", compared
	// from left to right.
	Composite Format = "composite"
)

// Token says whether the writes of a rule need a fencing token.
type Token string

const (
	// TokenRequired refuses a write without a token.
	TokenRequired Token = "required"
	// TokenOptional lets a write without a token pass, as older than every
	// token: fenced writes wait for it.
	TokenOptional Token = "optional"
	// TokenNone lets the rule's writes pass unfenced.
	TokenNone Token = "none"
)

// Mode says whether the fence of a rule holds or only tells what it would do.
type Mode string

const (
	// Enforce refuses stale writes and lets newer ones wait for older ones.
	Enforce Mode = "enforce"
	// Observe forwards everything, keeps marks and writes in flight as Enforce
	// does, and says what would have been refused or would have waited.
	Observe Mode = "observe"
)

// Reads says what becomes of a safe request that carries a token.
type Reads string

const (
	// ReadsPass forwards it untouched.
	ReadsPass Reads = "pass"
	// ReadsFence checks it, raises and drains like a write before it is
	// forwarded. A safe request without a token passes all the same.
	ReadsFence Reads = "fence"
)

// UnmatchedWrites says what becomes of a write that no rule covers.
type UnmatchedWrites string

const (
	// Reject answers write-not-covered.
	Reject UnmatchedWrites = "reject"
	// Forward lets the write pass unfenced.
	Forward UnmatchedWrites = "forward"
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// The levels, from the most talkative.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// LogFormat is the form of a log line.
type LogFormat string

const (
	// LogAuto is LogConsole on a terminal and else LogJSON.
	LogAuto LogFormat = "auto"
	// LogConsole is for people.
	LogConsole LogFormat = "console"
	// LogJSON is one JSON object a line.
	LogJSON LogFormat = "json"
)

// choice is a string type with a closed set of values, in the order in which
// errors list them.
type choice interface {
	choices() []string
}

func (Format) choices() []string {
	return []string{string(Decimal), string(Hex), string(Composite)}
}

func (Token) choices() []string {
	return []string{string(TokenRequired), string(TokenOptional), string(TokenNone)}
}

func (Mode) choices() []string { return []string{string(Enforce), string(Observe)} }

func (Reads) choices() []string { return []string{string(ReadsPass), string(ReadsFence)} }

func (EncodedSlash) choices() []string { return []string{string(SlashReject), string(SlashSegment)} }

func (Params) choices() []string { return []string{string(ParamsReject), string(ParamsKeep)} }

func (TrailingSlash) choices() []string { return []string{string(SlashDistinct), string(SlashSame)} }

func (UnmatchedWrites) choices() []string { return []string{string(Reject), string(Forward)} }

func (LogLevel) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

func (LogFormat) choices() []string {
	return []string{string(LogAuto), string(LogConsole), string(LogJSON)}
}
