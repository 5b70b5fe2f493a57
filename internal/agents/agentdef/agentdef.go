// Package agentdef is the definition of an agent: what it is told, which models it asks, which tools
// it may call, and what bounds it. It is pure.
package agentdef

import (
	"time"

	"github.com/google/uuid"
)

// Mode is how an agent works: the setting executionMode.
type Mode string

// The modes. Only those whose driver exists can be stored.
const (
	Conversational Mode = "conversational"
	WorkflowOnly   Mode = "workflow_only"
	Goal           Mode = "goal"
)

// Concurrency is what a message does while another one of its session is answered.
type Concurrency string

// Follow is the language of an agent that answers each customer in theirs.
const Follow = "follow"

// The values of concurrency.
const (
	Enqueue Concurrency = "enqueue" // it waits for its turn
	Reject  Concurrency = "reject"  // it is refused with SESSION_BUSY
)

// Definition is a version of an agent.
type Definition struct {
	Name          string      `json:"name"`
	ExecutionMode Mode        `json:"executionMode"`
	Instructions  string      `json:"instructions"`
	Models        Models      `json:"models"`
	Tools         Tools       `json:"tools"`
	Limits        Limits      `json:"limits"`
	SOPs          []SOP       `json:"sops"`
	Maps          []uuid.UUID `json:"maps"`
	Concurrency   Concurrency `json:"concurrency"`
	// Language is Follow, or the code of the one language in which the agent answers.
	Language   string     `json:"language"`
	Memory     Memory     `json:"memory"`
	Escalation Escalation `json:"escalation"`
	// MapID is the Map of the mode workflow_only; nil in the others.
	MapID *uuid.UUID `json:"map_id,omitempty"`
	// CompletionCriteria say when a goal is met, in the mode goal; nil in the others.
	CompletionCriteria []Criterion `json:"completion_criteria,omitempty"`
}

// Models are those that an agent asks, by what it asks them for. A nil one is Worker.
type Models struct {
	Worker     *Model `json:"worker"`
	Manager    *Model `json:"manager,omitempty"`
	Planner    *Model `json:"planner,omitempty"`
	Summarizer *Model `json:"summarizer,omitempty"`
	Embedder   *Model `json:"embedder,omitempty"`
}

// BuiltIn is the provider of the models that are part of the service, and Rules the one that every
// agent can ask.
const (
	BuiltIn = "builtin"
	Rules   = "rules"
)

// Model names a model and says how it is asked.
type Model struct {
	// Provider is BuiltIn or a provider of models of the tenant.
	Provider string `json:"provider"`
	// Model is the name that its maker has given it.
	Model           string   `json:"model"`
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int      `json:"max_output_tokens,omitempty"`
	// Timeout is how long one answer may take.
	Timeout Duration `json:"timeout,omitempty"`
	// Fallback are asked in their order where this one fails. They have no fallback of their own.
	Fallback []Model `json:"fallback,omitempty"`
}

// Duration is a time such as 30s in JSON.
type Duration time.Duration

// Tools say what an agent may call: patterns over names of verbs and of platform tools, in which *
// stands for any text without a colon.
type Tools struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
	// MaxPerTurn is how many calls the agent may make for one message, Parallel how many at once.
	MaxPerTurn int `json:"max_per_turn"`
	Parallel   int `json:"parallel"`
}

// Limits bound what one message leads to.
type Limits struct {
	// MaxTurns is how many answers of the model there may be.
	MaxTurns int `json:"max_turns"`
	// StepAttempts and GoalSteps are for the modes workflow_only and goal.
	StepAttempts int `json:"step_attempts"`
	GoalSteps    int `json:"goal_steps"`
	// Tokens and MoneyMicros are the most that the models may use; 0 for no bound of their own.
	Tokens      int64 `json:"tokens,omitempty"`
	MoneyMicros int64 `json:"money_micros,omitempty"`
	// WallClock is how long the service works on a message. Waiting for people does not count.
	WallClock Duration `json:"wall_clock"`
}

// SOP is a standard operating procedure: advice that the agent reads while it fits the message. It
// never scripts.
type SOP struct {
	Slug     string   `json:"slug"`
	Title    string   `json:"title"`
	When     string   `json:"when"`
	Action   string   `json:"action"`
	Examples []string `json:"examples,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	// Tools are patterns of verbs that are offered only while the SOP fits.
	Tools    []string `json:"tools,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Enabled  bool     `json:"enabled"`
}

// Memory says what the agent knows of a session, and of its customer.
type Memory struct {
	// WindowMessages is how many of the newest messages a model reads in full. Calls count, and the
	// results of calls.
	WindowMessages int `json:"window_messages"`
	// Summarize: what is older is summarised. Otherwise the model does not read it.
	Summarize bool `json:"summarize"`
	// Customer is what the agent does with what is remembered of the customer.
	Customer CustomerMemory `json:"customer"`
}

// CustomerMemory is what an agent does with what is remembered of a customer from one session to the
// next.
type CustomerMemory string

// The values of memory.customer.
const (
	MemoryOff   CustomerMemory = "off"   // nothing is read or written
	MemoryTools CustomerMemory = "tools" // it is read, and written where the model decides so by a tool
	MemoryAuto  CustomerMemory = "auto"  // the same, and what a message says is found after the reply
)

// Criterion is one thing that a goal needs.
type Criterion struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	// Check is an expression; "" where a model judges.
	Check string `json:"check,omitempty"`
}

// Escalation says when a session is handed to people by itself.
type Escalation struct {
	// OnLimit: a limit ended a turn. OnFailure: the model failed. OnRequest: the customer asks for a
	// person.
	OnLimit   bool `json:"on_limit"`
	OnFailure bool `json:"on_failure"`
	OnRequest bool `json:"on_request"`
}
