package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// countedTimes is how often each request is made that is only counted. It hides what a process does
// now and then.
const countedTimes = 50

// mapCosts are the SQL trips and Temporal writes of requests about Maps, made one after the other.
type mapCosts []mapCost

type mapCost struct {
	what        string
	sql, writes float64
}

// countMaps counts what requests about Maps cost, without their time.
func (b *benchmark) countMaps(ctx context.Context) (costs mapCosts, err error) {
	if b.Queued == 0 {
		return nil, nil
	}
	owner, _, err := b.logIn(ctx, b.service.Email, b.service.Password)
	if err != nil {
		return nil, err
	}
	triggers, err := b.publishCounted(ctx, owner)
	if err != nil {
		return nil, err
	}
	dry, err := b.triggerCounted(ctx, triggers["writes"], "dry", true)
	if err != nil {
		return nil, err
	}
	read := func(path string) func() error {
		return func() error {
			_, err := b.call(ctx, http.MethodGet, path, owner, nil, http.StatusOK)
			return err
		}
	}
	trigger := func(name, session string) func() error {
		return func() error {
			_, err := b.triggerCounted(ctx, triggers[name], session, true)
			return err
		}
	}
	asked := make([]question, countedTimes)
	for i := range asked {
		if asked[i], err = b.ask(ctx, owner, triggers["asks"]); err != nil {
			return nil, err
		}
	}
	for _, one := range []struct {
		what string
		do   func() error
	}{
		{"Map of one step without a call, to its end", trigger("plain", "")},
		{"the same with a concurrency key", trigger("keyed", "")},
		{"repeat of a trigger", trigger("writes", "dry")},
		{"GET /v1/executions/{id} of a Map", read("/v1/executions/" + dry)},
		{"GET …/changes", read("/v1/executions/" + dry + "/changes")},
		{"GET …/graph", read("/v1/executions/" + dry + "/graph")},
		{"export of the audit trail of one execution", read("/v1/audit/export?format=ndjson&execution_id=" + dry)},
		{"decision about an approval step, and a read that waits for the end of its Map", func() error {
			q := asked[0]
			asked = asked[1:]
			if err := b.post(ctx, owner, "/v1/approvals/"+q.approval+"/approve", struct{}{}, nil); err != nil {
				return err
			}
			return b.awaitEnd(ctx, owner, q.execution)
		}},
	} {
		before := b.cost()
		for range countedTimes {
			if err := one.do(); err != nil {
				return nil, fmt.Errorf("bench: %s: %w", one.what, err)
			}
		}
		after := b.cost()
		costs = append(costs, mapCost{one.what, float64(after.SQL-before.SQL) / countedTimes, float64(after.Writes-before.Writes) / countedTimes})
	}
	return costs, nil
}

// publishCounted makes the Maps, and returns the paths that trigger them.
func (b *benchmark) publishCounted(ctx context.Context, owner credential) (map[string]string, error) {
	triggers := map[string]string{}
	for name, definition := range map[string]string{
		"plain":  `"steps":[{"id":"a","type":"set","assign":{"x":1}}]`,
		"keyed":  `"concurrency":{"key":"all","limit":1,"when_full":"queue"},"steps":[{"id":"a","type":"set","assign":{"x":1}}]`,
		"asks":   `"steps":[{"id":"a","type":"approval","title":"Now?"}]`,
		"writes": `"dry_run":true,"steps":[{"id":"a","type":"verb","verb":"` + b.service.Provider + `:create_order","args":{"customer_id":"cus_1001","amount":1,"currency":"eur"}}]`,
	} {
		var made struct {
			ID string `json:"id"`
		}
		if err := b.post(ctx, owner, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"Counted",`+definition+`}`), &made); err != nil {
			return nil, err
		}
		triggers[name] = "/v1/maps/" + made.ID + "/trigger"
	}
	return triggers, nil
}

// triggerCounted triggers a Map, waits for its end or for nothing, and returns the execution.
func (b *benchmark) triggerCounted(ctx context.Context, path, session string, waits bool) (id string, err error) {
	body := map[string]any{"payload": struct{}{}}
	if session != "" {
		body["session_id"] = session
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	raw, err := b.callWaiting(ctx, path, text, waits)
	if err != nil {
		return "", err
	}
	var out struct {
		Data struct {
			ExecutionID string `json:"execution_id"`
		} `json:"data"`
	}
	err = json.Unmarshal(raw, &out)
	return out.Data.ExecutionID, err
}

// question is an approval that an execution waits for.
type question struct{ execution, approval string }

// ask triggers a Map that asks people.
func (b *benchmark) ask(ctx context.Context, owner credential, path string) (q question, err error) {
	if q.execution, err = b.triggerCounted(ctx, path, "", false); err != nil {
		return q, err
	}
	q.approval, err = b.approvalOf(ctx, owner, q.execution)
	return q, err
}

// callWaiting triggers a Map and waits for its end, or for nothing.
func (b *benchmark) callWaiting(ctx context.Context, path string, body []byte, waits bool) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.service.APIURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if waits {
		return b.send(req, b.runtime, http.StatusOK)
	}
	req.Header.Set("Prefer", "wait=0")
	return b.send(req, b.runtime, http.StatusAccepted)
}

// approvalOf waits until the execution asks people, and returns the approval.
func (b *benchmark) approvalOf(ctx context.Context, owner credential, execution string) (string, error) {
	for {
		raw, err := b.call(ctx, http.MethodGet, "/v1/executions/"+execution, owner, nil, http.StatusOK)
		if err != nil {
			return "", err
		}
		var e struct {
			Data struct {
				FinishedAt *time.Time `json:"finished_at"`
				WaitingFor *struct {
					ApprovalID string `json:"approval_id"`
				} `json:"waiting_for"`
			} `json:"data"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", fmt.Errorf("bench: %w", err)
		}
		if w := e.Data.WaitingFor; w != nil && w.ApprovalID != "" {
			return w.ApprovalID, nil
		}
		if e.Data.FinishedAt != nil {
			return "", fmt.Errorf("bench: a Map that asks people ended: %s", raw)
		}
	}
}

// awaitEnd waits in one request until the execution has ended. That costs two trips and more.
func (b *benchmark) awaitEnd(ctx context.Context, owner credential, execution string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.service.APIURL+"/v1/executions/"+execution, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Prefer", "wait=60")
	_, err = b.send(req, owner, http.StatusOK)
	return err
}

func (c mapCosts) print(w io.Writer) error {
	for _, one := range c {
		if _, err := fmt.Fprintf(w, "%s: %.1f SQL trips, %.1f Temporal writes\n", one.what, one.sql, one.writes); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}
