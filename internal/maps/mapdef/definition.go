// Package mapdef has the definition of a Map: its types, how it is read from JSON or YAML,
// and all that can be wrong with it. The step machine walks these types, and the endpoints
// read and validate with it. It does no I/O. What it has to know of verbs, policies and other
// Maps, its caller looks up.
package mapdef

import (
	"encoding/json"

	"agentruntime/internal/maps/expression"
)

// Bounds of a definition.
const (
	MaxBytes      = 256 << 10
	MaxSteps      = 200
	MaxNesting    = 8 // how many blocks a step may be in, one within the other
	MaxMapDepth   = 5 // Maps that start Maps
	MaxIterations = 1_000
	MaxItems      = 10_000
	MaxConcurrent = 50
)

// SchemaVersion is the version of the format that this package reads.
const SchemaVersion = "1"

// MapType says whether a model has a part in a Map.
type MapType string

// The types of Maps. A Map with a model step in it, or in a Map that it starts, is cognitive.
const (
	Cognitive    MapType = "cognitive"
	NonCognitive MapType = "non_cognitive"
)

// Definition is one version of a Map. It is immutable. As JSON it is the text it was read
// from, so it passes through histories as written.
type Definition struct {
	SchemaVersion string
	Name          string
	Description   string
	// When, Examples and Keywords let messages find the Map. They are plain text.
	When     string
	Examples []string
	Keywords []string

	TriggerSchema json.RawMessage // JSON Schema of the payload; nil accepts any
	Vars          []Assignment    // what vars has at the start; sees trigger_data, context and $now
	Defaults      Defaults
	Steps         []Step
	// Output is what the Map results in; zero: the output of the last step that completed.
	// A return step overrides it.
	Output expression.Value
	// OnFailure runs once after a failure, when compensation is done. The root error is the
	// error. The Map ends failed nevertheless.
	OnFailure   []Step
	Limits      Limits
	Concurrency *Concurrency // nil: executions do not wait for each other
	DryRun      bool

	source json.RawMessage
	size   int
	zeros  []string // the places of bounds of time that are written as 0
}

// Assignment gives a value a name.
type Assignment struct {
	Name  string
	Value expression.Value
}

// Defaults are for steps that do not say otherwise.
type Defaults struct {
	Timeout Duration // 0: DefaultTimeout
	Retry   *Retry   // nil: no retries
}

// Limits bound one execution. Zero values leave it to the service.
type Limits struct {
	MaxDuration Duration
	MaxSteps    int // steps that may run, each iteration counted
	MaxActions  int // calls of verbs that may be sent
}

// WhenFull says what a trigger does where the key's limit is reached.
type WhenFull string

// What a trigger does where the limit is reached.
const (
	Queue   WhenFull = "queue"
	Refuse  WhenFull = "refuse"
	Replace WhenFull = "replace" // cancels and compensates the older one first
)

// Concurrency bounds how many executions with the same key run at a time.
type Concurrency struct {
	Key      expression.Template // sees trigger_data and context
	Limit    int                 // at least 1
	WhenFull WhenFull
}
