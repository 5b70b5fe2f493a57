package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/action/desk"
	"agentruntime/internal/action/run"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	mapruns "agentruntime/internal/maps/execution"
	"agentruntime/internal/provider/vault"
	"agentruntime/internal/record/event"
	"agentruntime/internal/tenant/customer"
)

// Bounds of exports: how many a process writes at once, how long another one waits for its turn,
// how long one may take, and how many things it reads at once.
const (
	exportsAtOnce = 2
	exportWait    = 10 * time.Second
	exportLimit   = 10 * time.Minute
	exportPage    = 100
)

// exportCustomer writes all that is stored about a customer as one JSON document, as it is read.
func (h *customerHandlers) exportCustomer(ctx context.Context, c *wire.Call) (wire.Reply, error) {
	turn := time.NewTimer(exportWait)
	defer turn.Stop()
	select {
	case h.exports <- struct{}{}:
		defer func() { <-h.exports }()
	case <-turn.C:
		f := fault.New(fault.CodeServiceUnavailable, "Other exports are being written. Try again soon.")
		f.Retryable, f.RetryAfter = true, exportWait
		return wire.Reply{}, f
	case <-ctx.Done():
		return wire.Reply{}, context.Cause(ctx)
	}
	e, err := h.customers.Export(ctx, c.Actor, c.Param("id"))
	if err != nil {
		return wire.Reply{}, err
	}
	header := c.ResponseHeader()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="customer-%s.json"`, e.Customer.ID))
	header.Set("Cache-Control", "no-store")
	ctx, cancel := context.WithTimeout(ctx, exportLimit)
	defer cancel()
	return wire.Reply{}, c.Stream(func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 64<<10)
		x := customerExport{h: h, tenant: c.Actor.TenantID, e: e, out: out}
		if err := x.write(ctx); err != nil {
			return err
		}
		return out.Flush()
	})
}

// customerExport is one export under way. Each part is read page by page. A part that fails ends
// the document in the middle.
type customerExport struct {
	h      *customerHandlers
	tenant uuid.UUID
	e      customer.Export
	out    *bufio.Writer
}

// exportedIdentifier is a text that names the customer.
type exportedIdentifier struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// exportedEvent is an event with its deliveries to webhooks, whose bodies are the event.
type exportedEvent struct {
	Event      eventView          `json:"event"`
	Deliveries []exportedDelivery `json:"deliveries"`
}

type exportedDelivery struct {
	WebhookID uuid.UUID    `json:"webhook_id"`
	Delivery  deliveryView `json:"delivery"`
}

func (x *customerExport) write(ctx context.Context) error {
	identifiers := make([]exportedIdentifier, len(x.e.Identifiers))
	for i, id := range x.e.Identifiers {
		identifiers[i] = exportedIdentifier(id)
	}
	for _, part := range []struct {
		name  string
		write func(ctx context.Context, put func(any) error) error
	}{
		{"executions", x.executions}, {"map_executions", x.mapExecutions}, {"map_steps", x.mapSteps}, {"map_signals", x.mapSignals}, {"sessions", x.sessions}, {"session_messages", x.sessionMessages}, {"message_executions", x.messageExecutions}, {"memory", x.memory}, {"approvals", x.approvals}, {"events", x.events}, {"credentials", x.credentials}, {"grants", x.grants},
	} {
		if part.name == "executions" {
			if err := x.head(identifiers); err != nil {
				return err
			}
		}
		if _, err := x.out.WriteString(",\n" + `"` + part.name + `":[`); err != nil {
			return err
		}
		first := true
		err := part.write(ctx, func(v any) error {
			if !first {
				if _, err := x.out.WriteString(",\n"); err != nil {
					return err
				}
			}
			first = false
			return x.put(v)
		})
		if err != nil {
			return fmt.Errorf("api: export %s: %w", part.name, err)
		}
		if _, err := x.out.WriteString("]"); err != nil {
			return err
		}
	}
	if err := x.h.customers.StillThere(ctx, x.tenant, x.e); err != nil {
		return fmt.Errorf("api: export: the customer is gone: %w", err)
	}
	_, err := x.out.WriteString(",\n\"complete\":true}\n")
	return err
}

func (x *customerExport) head(identifiers []exportedIdentifier) error {
	if _, err := x.out.WriteString(`{"exported_at":`); err != nil {
		return err
	}
	if err := x.put(x.e.At); err != nil {
		return err
	}
	if _, err := x.out.WriteString(",\n\"customer\":"); err != nil {
		return err
	}
	if err := x.put(viewCustomer(x.e.Customer)); err != nil {
		return err
	}
	if _, err := x.out.WriteString(",\n\"identifiers\":"); err != nil {
		return err
	}
	return x.put(identifiers)
}

func (x *customerExport) put(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = x.out.Write(raw)
	return err
}

// executions are the runs that name the customer, as GET /v1/executions/{id} shows them.
func (x *customerExport) executions(ctx context.Context, put func(any) error) error {
	who := actor.SystemOf(x.tenant)
	f := run.Filter{CustomerID: x.e.Customer.ID.String(), Until: &x.e.At, Limit: exportPage}
	for {
		page, more, err := x.h.runs.List(ctx, who, f)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := x.execution(ctx, who, r.ExecutionID, put); err != nil {
				return err
			}
			f.Before = &r.ID
		}
		if !more {
			return nil
		}
	}
}

// execution writes one run. It gives the room for large texts back before the next one.
func (x *customerExport) execution(ctx context.Context, who actor.Actor, id string, put func(any) error) error {
	free := func() {}
	defer func() { free() }()
	room := func(ctx context.Context, _ string, size int) error {
		leave, err := x.h.answers.TakeSome(ctx, x.tenant.String(), "", (size+bodyUnit-1)/bodyUnit)
		if err == nil {
			free = leave
		}
		return err
	}
	r, err := x.h.runs.Get(run.WithRoom(ctx, room), who, id)
	if err != nil {
		return err
	}
	return put(detailRun(ctx, x.h.runs, r, x.h.now()))
}

// ofMaps calls visit with each execution of a Map that was triggered for the customer.
func (x *customerExport) ofMaps(ctx context.Context, visit func(mapruns.Execution) error) error {
	f := mapruns.Filter{CustomerID: x.e.Customer.ID.String(), Until: &x.e.At, Limit: exportPage}
	for {
		page, more, err := x.h.executions.List(ctx, actor.SystemOf(x.tenant), f)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := visit(e); err != nil {
				return err
			}
			f.Before = &e.ID
		}
		if !more {
			return nil
		}
	}
}

// mapExecutions are the executions of Maps, as GET /v1/executions/{id} shows them but for their
// steps.
func (x *customerExport) mapExecutions(ctx context.Context, put func(any) error) error {
	return x.ofMaps(ctx, func(listed mapruns.Execution) error {
		e, err := x.h.executions.Get(ctx, actor.SystemOf(x.tenant), listed.ExecutionID)
		if err != nil {
			return err
		}
		v, err := shownMapExecution(ctx, x.h.executions, e, x.h.now())
		if err != nil {
			return err
		}
		return put(v)
	})
}

// exportedStep is a step of an execution of a Map. Its own execution_id is that of its call.
type exportedStep struct {
	MapExecutionID string  `json:"map_execution_id"`
	Step           mapStep `json:"step"`
}

// mapSteps are the steps of these executions.
func (x *customerExport) mapSteps(ctx context.Context, put func(any) error) error {
	return x.ofMaps(ctx, func(e mapruns.Execution) error {
		for after, more := int32(0), true; more; {
			var steps []mapruns.Step
			var err error
			if steps, more, err = x.h.executions.Steps(ctx, e, after, exportPage); err != nil {
				return err
			}
			for _, step := range steps {
				if err := put(exportedStep{e.ExecutionID, viewMapStep(step)}); err != nil {
					return err
				}
				after = step.Seq
			}
		}
		return nil
	})
}

// exportedSignal is a signal to an execution of a Map. Its data is masked.
type exportedSignal struct {
	MapExecutionID string          `json:"map_execution_id"`
	Name           string          `json:"name"`
	Data           json.RawMessage `json:"data"`
	SentBy         string          `json:"sent_by"`
	SentAt         time.Time       `json:"sent_at"`
}

// mapSignals are what people told these executions.
func (x *customerExport) mapSignals(ctx context.Context, put func(any) error) error {
	return x.ofMaps(ctx, func(e mapruns.Execution) error {
		for after, more := int32(0), true; more; {
			var page []mapruns.SentSignal
			var err error
			if page, more, err = x.h.executions.Signals(ctx, e, after, exportPage); err != nil {
				return err
			}
			for _, sent := range page {
				if err := put(exportedSignal{e.ExecutionID, sent.Name, sent.Data, sent.SentBy, sent.SentAt}); err != nil {
					return err
				}
				after = sent.Number
			}
		}
		return nil
	})
}

func (x *customerExport) approvals(ctx context.Context, put func(any) error) error {
	f := desk.Filter{CustomerID: x.e.Customer.ID.String(), Until: &x.e.At, Limit: exportPage}
	for {
		page, more, err := x.h.approvals.List(ctx, x.tenant, f)
		if err != nil {
			return err
		}
		for _, a := range page {
			d, err := x.h.approvals.Get(ctx, x.tenant, a.ID)
			if err != nil {
				return err
			}
			if err := put(detailApproval(d)); err != nil {
				return err
			}
			f.Before = a.ID
		}
		if !more {
			return nil
		}
	}
}

func (x *customerExport) events(ctx context.Context, put func(any) error) error {
	for _, name := range x.e.Names {
		f, at := event.Filter{CustomerID: name, To: &x.e.At}, event.Place{}
		for more := true; more; {
			var page []event.Stored
			var err error
			if page, more, err = x.h.events.After(ctx, x.tenant, f, at, exportPage); err != nil {
				return err
			}
			ids := make([]uuid.UUID, len(page))
			for i, e := range page {
				ids[i], at = e.ID, e.Place
			}
			deliveries, err := x.h.webhooks.OfEvents(ctx, x.tenant, ids)
			if err != nil {
				return err
			}
			for _, e := range page {
				out := exportedEvent{Event: eventView{e}, Deliveries: []exportedDelivery{}}
				for _, d := range deliveries[e.ID] {
					out.Deliveries = append(out.Deliveries, exportedDelivery{d.WebhookID, viewDelivery(d)})
				}
				if err := put(out); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// credentials are the customer's own, without their secrets.
func (x *customerExport) credentials(ctx context.Context, put func(any) error) error {
	f := vault.Filter{CustomerID: x.e.Customer.ID.String(), Limit: exportPage}
	for {
		page, more, err := x.h.credentials.List(ctx, x.tenant, f)
		if err != nil {
			return err
		}
		for _, one := range page {
			if err := put(viewCredential(one)); err != nil {
				return err
			}
			f.Before = one.ID
		}
		if !more {
			return nil
		}
	}
}

func (x *customerExport) grants(ctx context.Context, put func(any) error) error {
	f := desk.GrantFilter{CustomerNames: slices.Clone(x.e.Names), Limit: exportPage}
	for {
		page, more, err := x.h.approvals.Grants(ctx, x.tenant, f)
		if err != nil {
			return err
		}
		for _, g := range page {
			if err := put(viewGrant(g, x.h.now())); err != nil {
				return err
			}
			f.Before = &g.ID
		}
		if !more {
			return nil
		}
	}
}
