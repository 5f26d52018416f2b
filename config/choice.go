package config

// Format says how a fencing token is spelt.
type Format string

// Decimal tokens are 1 to 20 digits, at most 2^64-1.
const Decimal Format = "decimal"

// Token says whether the writes of a rule need a fencing token.
type Token string

const (
	// TokenRequired refuses a write without a token.
	TokenRequired Token = "required"
	// TokenNone lets the rule's writes pass unfenced.
	TokenNone Token = "none"
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
// errors list them. What the contract names but this version cannot do stands
// apart, so that it is told from a misspelling.
type choice interface {
	choices() (built, unbuilt []string)
}

func (Format) choices() (built, unbuilt []string) {
	return []string{string(Decimal)}, []string{"hex", "composite"}
}

func (Token) choices() (built, unbuilt []string) {
	return []string{string(TokenRequired), string(TokenNone)}, []string{"optional"}
}

func (UnmatchedWrites) choices() (built, unbuilt []string) {
	return []string{string(Reject), string(Forward)}, nil
}

func (LogLevel) choices() (built, unbuilt []string) {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}, nil
}

func (LogFormat) choices() (built, unbuilt []string) {
	return []string{string(LogAuto), string(LogConsole), string(LogJSON)}, nil
}
