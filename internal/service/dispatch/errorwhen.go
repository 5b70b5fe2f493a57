package dispatch

import (
	"context"
	"errors"
	"fmt"

	"agentruntime/internal/action/run"
	"agentruntime/internal/base/attempt"
	"agentruntime/internal/maps/expression"
)

// program reads the error_when of a stored plan; nil where it has none.
func program(source string) (*expression.Program, error) {
	if source == "" {
		return nil, nil //nolint:nilnil // most verbs have none
	}
	p, syntax := expression.ParseProgram(source)
	if syntax != nil {
		return nil, fmt.Errorf("dispatch: error_when of a stored plan: %s", syntax.Message) // an import has checked it
	}
	return p, nil
}

// findError denies a 2xx that the verb declares an error. What cannot be judged is denied too: nobody
// knows then that the provider did what was asked.
func (c *call) findError(ctx context.Context, a *run.Answer) {
	p := c.t.artefacts.errorWhen
	if p == nil || a.Phase != attempt.Answered || a.Status < 200 || a.Status >= 300 || a.Result == nil {
		return
	}
	var sandbox expression.Sandbox
	if c.t.d.deps.Programs != nil {
		sandbox = c.t.d.deps.Programs.For(c.t.tenant.String())
	}
	found, err := p.Eval(ctx, sandbox, a.Result)
	if err == nil {
		a.Denied = string(found) != "false" && string(found) != "null"
		return
	}
	a.Denied, a.Problem = true, "error_when could not be evaluated"
	if failure, own := errors.AsType[*expression.Failure](err); own {
		a.Problem = "error_when has failed: " + failure.Detail
	} else {
		c.t.d.deps.Log.WarnContext(ctx, "error_when was not evaluated", "verb", c.t.meta.Name, "error", err)
	}
}
