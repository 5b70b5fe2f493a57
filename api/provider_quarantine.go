package api

import (
	"context"
	"time"

	"agentruntime/api/wire"
	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// quarantineView says why calls of a verb are blocked.
type quarantineView struct {
	Form         string            `json:"form"`
	Since        time.Time         `json:"since"`
	Changes      []verb.FormChange `json:"changes"`
	ChangesTotal int               `json:"changes_total"`
	// NamedBy and its total are for those who manage providers.
	NamedBy      []verb.Naming `json:"named_by,omitempty"`
	NamedByTotal int           `json:"named_by_total,omitempty"`
}

// quarantinedVerb is a verb that an import leaves quarantined.
type quarantinedVerb struct {
	Verb string `json:"verb"`
	quarantineView
}

// viewQuarantine shows a quarantine, nil where there is none. named says whether with what names
// the verb.
func viewQuarantine(q *verb.Quarantine, named bool) *quarantineView {
	if q == nil {
		return nil
	}
	v := &quarantineView{Form: q.Form, Since: q.Since, Changes: wire.Array(q.Changes), ChangesTotal: q.ChangesTotal}
	if named {
		v.NamedBy, v.NamedByTotal = wire.Array(q.NamedBy), q.NamedByTotal
	}
	return v
}

func viewQuarantined(list []catalog.Quarantined) []quarantinedVerb {
	views := make([]quarantinedVerb, len(list))
	for i, q := range list {
		views[i] = quarantinedVerb{q.Verb, *viewQuarantine(&q.Quarantine, true)}
	}
	return views
}

// acceptVerb ends the quarantine of a verb.
func (h *providerHandlers) acceptVerb(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	var b struct {
		Form *string `json:"form"`
	}
	if err := c.DecodeOptional(&b); err != nil {
		return wire.Reply{}, err
	}
	var valid wire.Validation
	form := valid.OptionalText("/form", b.Form, 1, 64)
	if err := valid.Err(); err != nil {
		return wire.Reply{}, err
	}
	name, err := verbOfPath(c)
	if err != nil {
		return wire.Reply{}, err
	}
	v, err := h.catalog.Accept(ctx, c.Actor, name, form)
	return wire.Answer(viewVerb, v, err)
}
