package agentdef

import (
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"agentruntime/internal/agents/language"
	"agentruntime/internal/base/near"
	"agentruntime/internal/base/verb"
)

// The bounds of a definition, in characters, entries and numbers.
const (
	MaxName         = 255
	MaxInstructions = 32_768
	MaxPatterns     = 100 // of each list
	MaxSOPs         = 200
	MaxMaps         = 50
	MaxCriteria     = 20

	maxModelName  = 255
	maxFallbacks  = 3
	maxOutput     = 200_000 // tokens of one answer
	maxWindow     = 500
	maxTurns      = 100
	maxAttempts   = 10
	maxGoalSteps  = 100
	maxCalls      = 100
	maxParallel   = 16
	maxTokens     = 1_000_000_000
	maxMoney      = 1_000_000_000_000
	maxShort      = 255
	maxWhen       = 2_000
	maxAction     = 8_000
	maxExamples   = 20
	maxExample    = 500
	maxKeywords   = 50
	maxKeyword    = 100
	maxSOPTools   = 20
	maxPriority   = 1_000
	maxCheck      = 4_000
	maxProvider   = verb.MaxSlug
	longestAnswer = Duration(10 * time.Minute)
	longestTurn   = Duration(time.Hour)
	shortest      = Duration(time.Second)
)

var (
	slugText     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	providerText = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// check notes what is wrong with the definition, beside its form.
func (d *Definition) check(f *faults) {
	f.text("/name", d.Name, MaxName, true)
	f.text("/instructions", d.Instructions, MaxInstructions, false)
	d.checkMode(f)
	for _, r := range d.Models.all() {
		r.model.check("/models/"+r.name, f)
		f.count("/models/"+r.name+"/fallback", len(r.model.Fallback), maxFallbacks)
		for i, next := range r.model.Fallback {
			at := "/models/" + r.name + "/fallback/" + strconv.Itoa(i)
			next.check(at, f)
			if len(next.Fallback) > 0 {
				f.add(at+"/fallback", "maxItems", "must be empty: a fallback has none of its own")
			}
		}
	}
	d.Tools.check(f)
	d.Limits.check(f)
	f.number("/memory/window_messages", int64(d.Memory.WindowMessages), 2, maxWindow)
	if c := d.Memory.Customer; c != MemoryOff && c != MemoryTools && c != MemoryAuto {
		f.add("/memory/customer", "enum", near.OneOf(c, MemoryOff, MemoryTools, MemoryAuto))
	}
	if d.Concurrency != Enqueue && d.Concurrency != Reject {
		f.add("/concurrency", "enum", near.OneOf(d.Concurrency, Enqueue, Reject))
	}
	if d.Language != Follow && !language.IsKnown(d.Language) {
		f.add("/language", "enum", "must be follow, or a language by its code of ISO 639-1, such as en")
	}
	f.count("/sops", len(d.SOPs), MaxSOPs)
	slugs := map[string]bool{}
	for i, p := range d.SOPs {
		at := "/sops/" + strconv.Itoa(i)
		p.check(at, f)
		if slugs[p.Slug] {
			f.add(at+"/slug", "unique", "must differ from the slugs of the other SOPs")
		}
		slugs[p.Slug] = true
	}
	f.count("/maps", len(d.Maps), MaxMaps)
	for i, id := range d.Maps {
		if slices.Contains(d.Maps[:i], id) {
			f.add("/maps/"+strconv.Itoa(i), "unique", "must differ from the other Maps")
		}
	}
}

// checkMode checks the mode, and the members that belong to a mode.
func (d *Definition) checkMode(f *faults) {
	if modes := []Mode{Conversational, WorkflowOnly, Goal}; !slices.Contains(modes, d.ExecutionMode) {
		f.add("/executionMode", "enum", near.OneOf(d.ExecutionMode, modes...))
	}
	switch {
	case d.ExecutionMode == WorkflowOnly && d.MapID == nil:
		f.add("/map_id", "required", "is required in the mode workflow_only")
	case d.ExecutionMode != WorkflowOnly && d.MapID != nil:
		f.add("/map_id", "mode", "belongs to the mode workflow_only")
	}
	if d.ExecutionMode != Goal && len(d.CompletionCriteria) > 0 {
		f.add("/completion_criteria", "mode", "belongs to the mode goal")
	}
	f.criteria("/completion_criteria", d.CompletionCriteria)
}

func (m Model) check(at string, f *faults) {
	if len(m.Provider) > maxProvider || !providerText.MatchString(m.Provider) {
		f.add(at+"/provider", "pattern", "must be builtin, or the slug of a provider of models")
	}
	f.text(at+"/model", m.Model, maxModelName, true)
	if t := m.Temperature; t != nil && (*t < 0 || *t > 2) {
		f.add(at+"/temperature", "range", "must be from 0 to 2")
	}
	f.number(at+"/max_output_tokens", int64(m.MaxOutputTokens), 0, maxOutput)
	f.time(at+"/timeout", m.Timeout, longestAnswer)
}

func (t Tools) check(f *faults) {
	f.patterns("/tools/allow", t.Allow, MaxPatterns)
	f.patterns("/tools/deny", t.Deny, MaxPatterns)
	f.number("/tools/max_per_turn", int64(t.MaxPerTurn), 0, maxCalls)
	f.number("/tools/parallel", int64(t.Parallel), 1, maxParallel)
}

func (l Limits) check(f *faults) {
	f.number("/limits/max_turns", int64(l.MaxTurns), 1, maxTurns)
	f.number("/limits/step_attempts", int64(l.StepAttempts), 1, maxAttempts)
	f.number("/limits/goal_steps", int64(l.GoalSteps), 1, maxGoalSteps)
	f.number("/limits/tokens", l.Tokens, 0, maxTokens)
	f.number("/limits/money_micros", l.MoneyMicros, 0, maxMoney)
	f.time("/limits/wall_clock", l.WallClock, longestTurn)
}

func (p SOP) check(at string, f *faults) {
	f.fits(at+"/slug", p.Slug, slugText, "must begin with a-z or 0-9, and have at most 63 of a-z, 0-9, - and _")
	f.text(at+"/title", p.Title, maxShort, true)
	f.text(at+"/when", p.When, maxWhen, true)
	f.text(at+"/action", p.Action, maxAction, true)
	f.texts(at+"/examples", p.Examples, maxExamples, maxExample)
	f.texts(at+"/keywords", p.Keywords, maxKeywords, maxKeyword)
	f.patterns(at+"/tools", p.Tools, maxSOPTools)
	f.number(at+"/priority", int64(p.Priority), -maxPriority, maxPriority)
}

// text checks the length of a text. One that is required is not empty.
func (f *faults) text(path, text string, most int, required bool) {
	switch n := utf8.RuneCountInString(text); {
	case n == 0 && required:
		f.add(path, "required", "is required, and must not be empty")
	case n > most:
		f.addf(path, "maxLength", "must have at most %d characters", most)
	}
}

func (f *faults) fits(path, text string, pattern *regexp.Regexp, hint string) {
	if !pattern.MatchString(text) {
		f.add(path, "pattern", hint)
	}
}

func (f *faults) texts(path string, list []string, most, longest int) {
	f.count(path, len(list), most)
	for i, t := range list {
		f.text(path+"/"+strconv.Itoa(i), t, longest, true)
	}
}

func (f *faults) patterns(path string, list []string, most int) {
	f.count(path, len(list), most)
	for i, p := range list {
		if wrong := patternFault(p); wrong != "" {
			f.add(path+"/"+strconv.Itoa(i), "pattern", wrong)
		}
	}
}

func (f *faults) count(path string, n, most int) {
	if n > most {
		f.addf(path, "maxItems", "must have at most %d entries", most)
	}
}

func (f *faults) number(path string, n, least, most int64) {
	if n < least || n > most {
		f.addf(path, "range", "must be from %d to %d", least, most)
	}
}

func (f *faults) time(path string, d, most Duration) {
	if d < shortest || d > most {
		f.addf(path, "range", "must be from %s to %s", shortest, most)
	}
}
