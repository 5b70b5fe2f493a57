package answering

import (
	"context"
	"encoding/json"
	"fmt"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/maps/stepmachine"
	"agentruntime/internal/models/model"
	"agentruntime/internal/provider/catalog"
	"agentruntime/internal/service/tooling"
)

// Toolbox implements Tools by the tools of the catalog, the Maps and the agents that an agent may use.
type Toolbox struct {
	Box     *tooling.Toolbox
	Starts  *tooling.Starts
	Catalog *catalog.Catalog
}

func offerOf(o Offer) tooling.Offer {
	return tooling.Offer{Tenant: o.Tenant, Tools: o.Definition.Tools, SOPs: o.Definition.SOPs, Matched: o.Matched, Message: o.Message}
}

// Offer implements Tools.
func (t Toolbox) Offer(ctx context.Context, o Offer) (Toolset, error) {
	starts, err := t.Starts.Offer(ctx, o.Tenant, o.Definition.Maps, o.Said)
	if err != nil {
		return Toolset{}, err
	}
	if o.MayAsk {
		if starts, err = t.Starts.Agents(ctx, o.Tenant, o.Definition.Tools.Agents(), starts); err != nil {
			return Toolset{}, err
		}
	}
	offer := offerOf(o)
	offer.Starts = starts
	if o.Remembers {
		offer.Platform = tooling.MemoryTools()
	}
	set, err := t.Box.Offer(ctx, offer)
	if err != nil {
		return Toolset{}, err
	}
	out, err := toolset(set)
	out.Advice = starts.Advice
	return out, err
}

func toolset(set tooling.Set) (out Toolset, err error) {
	out.Tools, out.Verbs = set.Tools(), set.Verbs()
	if out.Stored, err = json.Marshal(set); err != nil {
		err = fmt.Errorf("answering: tools of an agent: %w", err)
	}
	return out, err
}

// Read implements Tools.
func (t Toolbox) Read(stored json.RawMessage) (Toolset, error) {
	set, err := setOf(stored)
	return Toolset{Stored: stored, Tools: set.Tools(), Verbs: set.Verbs()}, err
}

func setOf(stored json.RawMessage) (set tooling.Set, err error) {
	if err = json.Unmarshal(stored, &set); err != nil {
		err = fmt.Errorf("answering: stored tools of an agent: %w", err)
	}
	return set, err
}

// Resolve implements Tools.
func (t Toolbox) Resolve(ctx context.Context, o Offer, offered Toolset, call model.ToolCall) (out Resolved, err error) {
	set, err := setOf(offered.Stored)
	if err != nil {
		return out, err
	}
	r, err := t.Box.Resolve(ctx, o.Tenant, set, call)
	if f := fault.As(err); f != nil && f.Code != fault.CodeServiceUnavailable && f.Code != fault.CodeInternal {
		out.Failed = stepmachine.OfFault(f)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	switch r.Kind {
	case tooling.CallVerb:
		out.Verb, out.Args, out.Writes = r.Verb, r.Args, true
		// The run finds out whether the verb is still there.
		if found, err := t.Catalog.Meta(ctx, o.Tenant, r.Verb); err == nil {
			out.Writes = found.Operation != verb.Read
		}
		return out, nil
	case tooling.SearchVerbs, tooling.DescribeVerb:
		text, grown, err := t.Box.Answer(ctx, offerOf(o), set, r)
		if err != nil {
			return out, err
		}
		now, err := toolset(grown)
		out.Answer, out.Grown = text, now.Stored
		return out, err
	case tooling.StartMap:
		out.Starts, out.Args = &Start{Kind: flow.KindMap, ID: r.Start.ID, Version: r.Start.Version}, r.Args
		return out, nil
	case tooling.AskAgent:
		out.Starts, out.Args = &Start{Kind: flow.KindMessage, ID: r.Start.ID, Version: r.Start.Version}, r.Args
		return out, nil
	case tooling.Platform:
		out.Platform, out.Args = r.Tool, r.Args
		return out, nil
	case tooling.Escalate:
		out.Escalates = true
		return out, nil
	default:
		out.Failed = stepmachine.NewError(string(fault.CodeVerbNotFound), "This tool does not exist yet.")
		return out, nil
	}
}
