package mapdef

import (
	"agentruntime/internal/action/governance"
)

// Bounds of parts of a definition.
const (
	maxTemplate   = 16 << 10
	maxNames      = 100
	maxMax        = 1_000_000
	maxAttempts   = 100
	maxCriteria   = 20
	maxSchemas    = 5_000 // JSON values in all schemas of a definition together
	maxExpression = 2_000 // expressions in a definition
)

// Patterns of names. They mean the same in RE2 and in ECMA 262.
const (
	namePattern      = `^[a-z][a-z0-9_]{0,62}$`
	nameHint         = "must begin with a-z, and have at most 63 of a-z, 0-9 and _"
	criterionPattern = `^[a-z0-9][a-z0-9_-]{0,62}$`
	verbPattern      = `^[a-z0-9][a-z0-9_-]*:[a-z0-9][a-z0-9_-]*$`
	codePattern      = `^[A-Z][A-Z0-9_]{0,62}$`
	codeOrAnyPattern = `^([A-Z][A-Z0-9_]{0,62}|\*)$`
	customPattern    = `^custom\.[a-z0-9_.-]{1,100}$`
	eventPattern     = `^[a-z0-9_.-]{1,200}$`
	idPattern        = `^[A-Za-z0-9_-]{1,64}$`
	uuidPattern      = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	toolPattern      = `^[a-z0-9*][a-z0-9_*-]*:[a-z0-9*][a-z0-9_*-]*$`
)

// shortText is the shape of the texts in a list.
func shortText(most int) shape { return shape{kind: textShape, most: most} }

func codeText() shape {
	return shape{kind: textShape, most: 63, pattern: codeOrAnyPattern, hint: "must be a code such as PROVIDER_ERROR, or *"}
}

func as(about string) field { return fitting("as", 63, namePattern, nameHint, about) }

func retry(about string) field {
	return object("retry", about,
		whole("max_attempts", maxAttempts, "How often the step is tried, the first time included.").must(),
		duration("initial", "How long the engine waits before the second attempt.").defaulting(`"1s"`),
		number("backoff", 1, 100, "By which factor each wait is longer than the one before.").defaulting("2"),
		duration("max_interval", "The longest wait.").defaulting(`"1m"`),
		number("jitter", 0, 1, "By which part a wait may be shorter, so that many do not come at once.").defaulting("0"),
		list("retry_on", 1, 50, "The codes that are tried again. `*` stands for all that may be. Neither covers an end of a write that may have had its effect.", codeText()).defaulting(`["*"]`),
	)
}

// definitionFields are the members of a definition.
func definitionFields() []field {
	return []field{
		{name: "schema_version", about: "The version of this format.", required: true, shape: shape{kind: textShape, enum: []string{SchemaVersion}}},
		text("name", 255, "The name of the Map, for people.").must(),
		text("description", 4096, "What the Map does, for people."),
		text("when", 2000, "In which situations a message means this Map. Plain text."),
		list("examples", 0, 50, "Messages that mean this Map.", shortText(500)),
		list("keywords", 0, 50, "Words that point to this Map.", shortText(100)),
		schema("trigger_schema", "A JSON Schema of the payload. A trigger whose payload does not fit is refused."),
		names("vars", 0, "Variables and their first values, which read trigger_data, context and $now. `set` changes them."),
		object("defaults", "For steps that do not say otherwise.",
			duration("timeout", "Bounds the retries and the sending of a step, not its waits for people.").defaulting(`"15m"`),
			retry("How failed steps are tried again. Without it they are not."),
		),
		steps("steps", "What the Map does, one step after the other.").must(),
		value("output", "What the Map results in. Without it, the output of the last step that completed."),
		steps("on_failure", "Runs once when the Map has failed and compensation is done. The root `failure` is the error. The Map ends failed nevertheless."),
		object("limits", "Bounds of one execution.",
			duration("max_duration", "How long the execution may last, waits included."),
			whole("max_steps", maxMax, "How many steps may run, each iteration counted. A block without steps counts as one. `on_failure` may run as many again, and 1,000 at least."),
			whole("max_actions", maxMax, "How many calls of verbs may be sent."),
		),
		object("concurrency", "How many executions with the same key run at a time.",
			template("key", "What they have in common, for example `${trigger_data.order_id}`. It reads trigger_data and context.").must(),
			whole("limit", 1000, "How many may run.").defaulting("1"),
			choice("when_full", "What a trigger does where so many run: wait, be refused with 409, or cancel and compensate the oldest first.", string(Queue), string(Refuse), string(Replace)),
		),
		flag("dry_run", "Each execution is a dry run: reads run, writes are collected."),
	}
}

// stepFields are the members that steps of all types have.
func stepFields() []field {
	var types []string
	for _, t := range Types() {
		types = append(types, string(t))
	}
	return []field{
		fitting("id", 63, namePattern, nameHint, "The step's id, unique in the definition. Expressions read the step by it.").must(),
		{name: "type", about: "What the step does.", required: true, shape: shape{kind: textShape, enum: types}},
		text("name", 255, "The step's name, for people."),
		condition("skip_if", "The step is skipped where this is true. Its output is null then."),
		duration("timeout", "Bounds the retries and the sending of this step."),
		retry("How this step is tried again when it fails."),
		list("catch", 0, 20, "Steps that handle failures of this step. The first entry that names the code does.", shape{kind: objectShape, fields: []field{
			list("errors", 1, 50, "Codes, or `*` for all.", codeText()).must(),
			as("The name by which the steps read the error."),
			steps("steps", "What handles the failure.").must(),
		}}),
		choice("on_error", "What a failure leads to that no entry of catch handles: the Map fails, it goes on, or it goes on with default_output.", string(OnErrorFail), string(OnErrorContinue), string(OnErrorDefault)),
		value("default_output", "The output of the failed step with `on_error: default`."),
		object("compensate", "The call that undoes this step when the Map fails or is cancelled after it. Its arguments are computed when the step completes.",
			fitting("verb", 255, verbPattern, "must be <provider>:<verb_name>", "The verb.").must(),
			value("args", "Its arguments. They may read this step's own output."),
		),
		value("mock", "The output of this step in dry runs, where its call is a write."),
	}
}

// Types returns the types of steps in the order of the reference.
func Types() []Type {
	return []Type{
		TypeVerb, TypeSet, TypeTransform, TypeValidate, TypeSwitch, TypeWhile, TypeForeach, TypeParallel,
		TypeWait, TypeApproval, TypeMap, TypeRaise, TypeEmit, TypeEscalate, TypeReturn,
		TypeAgent, TypeExtract, TypeClassify, TypeSummarize, TypeReason,
	}
}

// IsModel reports whether steps of the type ask a model.
func (t Type) IsModel() bool {
	switch t {
	case TypeAgent, TypeExtract, TypeClassify, TypeSummarize, TypeReason:
		return true
	default:
		return false
	}
}

// about says what steps of a type do, for the reference.
func (t Type) about() string {
	switch t {
	case TypeVerb:
		return "Calls a verb of a provider, governed and fenced as any call. Its output is the result of the call."
	case TypeSet:
		return "Sets variables. Its output is an object of what it has set."
	case TypeTransform:
		return "Computes a value. Its output is the value."
	case TypeValidate:
		return "Fails with VALIDATION_ERROR where a value does not fit a schema. Its output is the value."
	case TypeSwitch:
		return "Runs the steps of the first case whose condition is true. Its output is null."
	case TypeWhile:
		return "Repeats its steps while a condition is true. Its output is null."
	case TypeForeach:
		return "Runs its steps for each item of an array. Its output is an array: for each item the output of its last step."
	case TypeParallel:
		return "Runs branches at the same time. Its output is an object: by the id of each branch the output of its last step."
	case TypeWait:
		return "Waits for a time, until a time or for an event. Its output is the event, or null."
	case TypeApproval:
		return "Asks people. Its output is an object with decision, by, reason and response."
	case TypeMap:
		return "Runs another Map. Its output is that of the other Map."
	case TypeRaise:
		return "Fails with an error of your own."
	case TypeEmit:
		return "Emits an event. Its output is an object with event_id."
	case TypeEscalate:
		return "Hands over to people with the event escalation.created. Its output is what the signal `handled` brings, or null."
	case TypeReturn:
		return "Ends the Map with an output."
	case TypeAgent:
		return "Lets an agent work towards a goal."
	case TypeExtract:
		return "Lets a model read a value out of the input. Its output is the value."
	case TypeClassify:
		return "Lets a model choose one of the labels. Its output is an object with label."
	case TypeSummarize:
		return "Lets a model shorten the input. Its output is an object with summary."
	default:
		return "Lets a model answer a question. Its output is an object with answer and reason."
	}
}

// fields returns the members that only steps of this type have.
func (t Type) fields() []field {
	switch t {
	case TypeVerb:
		return []field{
			fitting("verb", 255, verbPattern, "must be <provider>:<verb_name>", "The verb.").must(),
			value("args", "The arguments: an object, or one expression that results in one."),
			fitting("credential_id", 36, uuidPattern, "must be the id of a credential", "Which credential is used, also by the call that undoes the step. It is one of the provider, and the customer's own or the tenant's; otherwise the step fails with CREDENTIAL_NOT_FOUND. Without it, the newest active one is used."),
			schema("expect", "A JSON Schema of the result. A result that does not fit fails the step with RESULT_MISMATCH."),
		}
	case TypeSet:
		return []field{names("assign", 1, "Variables and their values. Each value reads the variables as they were before the step.").must()}
	case TypeTransform:
		return []field{value("expr", "The value: usually one expression.").must()}
	case TypeValidate:
		return []field{value("value", "What is checked.").must(), schema("schema", "The JSON Schema that it must fit.").must()}
	case TypeSwitch:
		return []field{
			list("cases", 1, 100, "The first whose condition is true runs.", shape{kind: objectShape, fields: []field{
				condition("when", "When the case runs.").must(), steps("steps", "What it runs.").must(),
			}}).must(),
			steps("default", "Runs where no case does."),
		}
	case TypeWhile:
		return []field{
			condition("when", "Checked before each iteration. It may read the steps of the iteration before.").must(),
			whole("max_iterations", MaxIterations, "A further iteration fails the step with LOOP_LIMIT.").must(),
			steps("steps", "What is repeated.").must(),
		}
	case TypeForeach:
		return []field{
			value("items", "An array of at most 10,000 items.").must(),
			as("A name for the item beside `item`, so that an inner foreach can read it too."),
			choice("mode", "One item after the other, or several at a time.", string(Sequential), string(Concurrently)),
			whole("concurrency", MaxConcurrent, "How many items at a time, in mode parallel.").defaulting("10"),
			choice("on_item_error", "What a failed item leads to: the step fails, or the item's output is null.", string(Stop), string(Skip)),
			steps("steps", "What runs for each item.").must(),
		}
	default:
		return t.moreFields()
	}
}

func (t Type) moreFields() []field {
	switch t {
	case TypeParallel:
		return []field{
			list("branches", 1, 50, "What runs at the same time.", shape{kind: objectShape, fields: []field{
				fitting("id", 63, namePattern, nameHint, "The branch's id, unique in the step.").must(), steps("steps", "What the branch runs.").must(),
			}}).must(),
			choice("join", "Whether the step waits for all branches, for the first that completes, or for the first that ends.", string(JoinAll), string(JoinAny), string(JoinRace)),
			choice("on_branch_error", "What a failed branch leads to: the step fails, or the branch's output is null.", string(Stop), string(Skip)),
		}
	case TypeWait:
		return []field{
			value("for", "A duration, or an expression that results in one."),
			value("until", "A time in RFC 3339, or an expression that results in one."),
			object("event", "The event to wait for.",
				fitting("type", 200, eventPattern, "must have 1 to 200 of a-z, 0-9, dot, dash and underscore", "The type of the event, or the name of a signal.").must(),
				condition("filter", "Which events count. `.` is the event."),
				template("correlate", "Only events with this `correlate` count."),
				duration("timeout", "After it, the step fails with WAIT_TIMEOUT."),
				choice("since", "Whether events count that came after the trigger and before the step.", string(SinceTrigger), string(SinceStep)),
			),
		}
	case TypeApproval:
		return approvalFields()
	case TypeMap:
		return []field{
			fitting("map_id", 64, idPattern, "must be the id of a Map", "The other Map.").must(),
			whole("version", maxMax, "Which version. Without it, the published one."),
			value("payload", "Its payload: an object, or one expression that results in one."),
			flag("wait", "Whether the step waits for the other Map's end. Without waiting, the output is an object with execution_id.").defaulting("true"),
		}
	case TypeRaise:
		return []field{object("error", "The error.",
			fitting("code", 63, codePattern, "must be a code of A-Z, 0-9 and _ that begins with a letter", "Its code. It may not be one of the service's own.").must(),
			template("title", "What went wrong, in few words."),
			template("detail", "What exactly went wrong."),
		).must()}
	case TypeEmit:
		return []field{
			fitting("event", 107, customPattern, "must be custom. and 1 to 100 of a-z, 0-9, dot, dash and underscore", "The type of the event.").must(),
			value("data", "What the event says: an object, or one expression that results in one."),
		}
	case TypeEscalate:
		return []field{
			template("reason", "Why people have to look at it.").must(),
			flag("wait", "Whether the Map waits for the signal `handled`."),
		}
	case TypeReturn:
		return []field{value("output", "The output of the Map.")}
	default:
		return t.modelFields()
	}
}

func approvalFields() []field {
	return []field{
		template("title", "What people decide about.").must(),
		value("payload", "What they see, and may edit: an object, or one expression that results in one."),
		list("approvers", 0, governance.MaxApprovers, "Who may decide. Without it, owners, admins and approvers.", shape{kind: objectShape, fields: []field{
			choice("type", "Whether value is a role or the id of a user.", string(governance.ApproverRole), string(governance.ApproverUser)).must(),
			text("value", 255, "The role or the id.").must(),
		}}),
		whole("required", governance.MaxRequired, "How many people have to approve.").defaulting("1"),
		schema("form", "A JSON Schema of the response that approvers give. It judges a response that is given: to approve without one passes."),
		flag("self_approval", "Whether the one who started the Map may approve."),
		duration("timeout", "How long the approval waits.").defaulting(`"24h"`),
		choice("on_timeout", "What no decision in time leads to.", string(TimeoutReject), string(TimeoutContinue), string(TimeoutFail)),
	}
}

func (t Type) modelFields() []field {
	input := value("input", "What the model reads.").must()
	switch t {
	case TypeAgent:
		return []field{
			fitting("agent_id", 36, uuidPattern, "must be the id of an agent", "A stored agent, which does the step with its instructions, models, tools and limits. The version that is published when the step begins counts."),
			template("goal", "What the agent has to reach.").must(),
			list("tools", 0, 100, "The verbs that it may call; `*` stands for any text. Of them, a stored agent gets those that its own tools allow too; without this member, all that these allow.", shape{kind: textShape, most: 255, pattern: toolPattern, hint: "must be <provider>:<verb_name>, with * for any text"}),
			schema("output_schema", "A JSON Schema of the output."),
			condition("complete_when", "When the goal is reached. `.` is an object with calls and output."),
			whole("max_attempts", maxAttempts, "How many answers of the agent complete_when judges. With a manager, limits.step_attempts of the agent counts instead.").defaulting("1"),
			list("criteria", 1, maxCriteria, "What the manager of a stored agent judges. Without it, the goal is the one criterion.", shape{kind: objectShape, fields: []field{
				fitting("id", 63, criterionPattern, "must begin with a-z or 0-9, and have at most 63 of a-z, 0-9, - and _", "The criterion's id, unique in the step.").must(),
				text("description", 2000, "When the criterion is met. Plain text.").must(),
			}}),
		}
	case TypeExtract:
		return []field{input, schema("schema", "The JSON Schema of the value.").must()}
	case TypeClassify:
		return []field{input, list("labels", 2, 100, "The labels.", shortText(200)).must()}
	case TypeSummarize:
		return []field{input, whole("max_words", 10_000, "How long the summary may be.")}
	case TypeReason:
		return []field{template("question", "What the model has to answer.").must(), value("context", "What it may use.")}
	default:
		return nil
	}
}
