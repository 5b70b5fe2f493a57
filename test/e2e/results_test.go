package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// warehouse is a provider with results of all sizes. It counts the orders that it took.
type warehouse struct{ orders atomic.Int64 }

func (h *warehouse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/orders":
		fmt.Fprintf(w, `{"id":"o-%d","amount":9007199254740993,"state":"open","lines":[{"sku":"a","n":1},{"sku":"b","n":20}],"token":"t-1"}`, h.orders.Add(1))
	case "/large":
		item := `{"id":12345,"name":"some name","open":true,"amount":12.50},`
		_, _ = io.WriteString(w, `{"items":[`+strings.Repeat(item, (4<<20-1000)/len(item))+`{"id":7}],"total":7}`)
	default:
		_, _ = io.WriteString(w, `{"items":[{"id":1,"open":true},{"id":2,"open":false},{"id":3,"open":true}],"note":"ü"}`)
	}
}

func warehouseDocument() json.RawMessage {
	low := map[string]any{"risk_level": "low"}
	return document(bearer(),
		operation{method: http.MethodPost, path: "/orders", id: "create_order", args: []string{"sku"}, runtime: low},
		operation{method: http.MethodGet, path: "/items", id: "list_items", args: []string{"q"}},
		operation{method: http.MethodGet, path: "/large", id: "list_large"},
	)
}

// newWarehouse returns a tenant that is connected to a warehouse of its own.
func newWarehouse(t *testing.T, s *rig.Stack) (*rig.Tenant, *warehouse) {
	t.Helper()
	tenant, h := newTenant(s), &warehouse{}
	tenant.Connect(t, "warehouse", rig.Serve(t, h), warehouseDocument(), "bearer", map[string]string{"token": "secret-token"})
	return tenant, h
}

// shaped is what these tests read of the answer to a run.
type shaped struct {
	rig.RunData

	Idempotent  bool          `json:"idempotent"`
	FieldsError *programFault `json:"fields_error"`
	ResultRef   string        `json:"result_ref"`
	ResultBytes int           `json:"result_bytes"`
	Truncated   bool
	Message     string
}

type programFault struct{ Code, Message string }

// ask runs a verb with more members in the body of the call.
func ask(t *testing.T, c *rig.Client, verb, id string, more map[string]any) rig.Answer {
	t.Helper()
	body := map[string]any{"verb": "warehouse:" + verb, "args": map[string]any{}}
	if id != "" {
		body["execution_id"] = id
	}
	maps.Copy(body, more)
	return c.Do(http.MethodPost, "/v1/runtime/actions/run", body)
}

func asked(t *testing.T, c *rig.Client, verb, id string, more map[string]any) (d shaped) {
	t.Helper()
	a := ask(t, c, verb, id, more)
	require.NoError(t, a.Err)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &d)
	return d
}

func TestFieldsCutTheResultOfReadsWritesAndRepeats(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, h := newWarehouse(t, s)
		id := ids(1)[0]
		first := asked(t, tenant.Runtime, "create_order", id, map[string]any{"fields": ".amount"})
		require.Equal(t, "9007199254740993", string(first.Result), "numbers keep their digits")
		require.False(t, first.Idempotent)
		for program, want := range map[string]string{
			`.lines | map(.sku)`:              `["a","b"]`,
			`[.lines[] | select(.n > 1).sku]`: `["b"]`,
			`{id, first: .lines[0].sku}`:      `{"first":"a","id":"o-1"}`,
			`"order \(.id)"`:                  `"order o-1"`,
			`.none`:                           `null`,
		} {
			again := asked(t, tenant.Runtime, "create_order", id, map[string]any{"fields": program})
			require.Equal(t, want, string(again.Result), program)
			require.True(t, again.Idempotent)
			require.Nil(t, again.FieldsError)
		}
		whole := asked(t, tenant.Runtime, "create_order", id, nil)
		require.Contains(t, string(whole.Result), `"state":"open"`, "the stored result is the whole one")
		require.EqualValues(t, 1, h.orders.Load())
		require.Equal(t, `[1,3]`, string(asked(t, tenant.Runtime, "list_items", "", map[string]any{"fields": "[.items[] | select(.open).id]"}).Result))
		require.Contains(t, string(executionOf(t, tenant.Runtime, id).Result), `"state":"open"`)
	})
}

func TestBadProgramIsRefusedBeforeAnythingIsClaimed(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant, h := newWarehouse(t, s)
	id := ids(1)[0]
	for program, why := range map[string]string{
		`.a | ]`: "At byte 5", ``: "empty", `now`: "now is not allowed", `env.HOME`: "env is not allowed", `$ENV`: "$ENV", `input`: "input is not allowed",
		`trigger_data`: "no trigger_data", `nosuch(1)`: "nosuch/1", `import "a" as a; .`: "import", strings.Repeat(" ", 4096) + ".": "at most 4096 bytes",
	} {
		a := ask(t, tenant.Runtime, "create_order", id, map[string]any{"fields": program})
		require.Equal(t, http.StatusBadRequest, a.Status, program)
		e := a.Envelope(t).Error
		require.Equal(t, "VALIDATION_ERROR", e.Code)
		require.Contains(t, string(e.Details), `"/fields"`)
		require.Contains(t, string(e.Details), why)
	}
	require.Equal(t, http.StatusBadRequest, ask(t, tenant.Runtime, "create_order", id, map[string]any{"fields": 7}).Status)
	require.Equal(t, http.StatusBadRequest, ask(t, tenant.Runtime, "create_order", id, map[string]any{"Fields": "."}).Status)
	require.Zero(t, h.orders.Load())
	require.Equal(t, http.StatusNotFound, tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+id, nil).Status)
}

// bombs are programs without a result, with the codes that say why.
func bombs() map[string]string {
	return map[string]string{
		`null | .[536870910] = 1`: "EXPRESSION_LIMIT", `[][536870910] = 1`: "EXPRESSION_ERROR", `"x" * 2000000000`: "EXPRESSION_LIMIT", `def f: f; f`: "EXPRESSION_LIMIT", `def f: [f]; f`: "EXPRESSION_LIMIT",
		`[range(1e12)]`: "EXPRESSION_LIMIT", `.lines[].sku`: "EXPRESSION_RESULT", `empty`: "EXPRESSION_RESULT", `.id.x`: "EXPRESSION_ERROR",
		`"x" * 5000000`: "EXPRESSION_LIMIT",
	}
}

// evaluated asks again while the processor has no time for the program, which the answer says.
func evaluated[T any](ask func() T, failure func(T) *programFault) (d T) {
	for range 30 {
		d = ask()
		if f := failure(d); f == nil || f.Code != "SERVICE_UNAVAILABLE" {
			break
		}
	}
	return d
}

func TestProgramThatFailsLosesNoOutcome(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, h := newWarehouse(t, s)
		n := int64(0)
		for program, code := range bombs() {
			id := ids(1)[0]
			n++
			d := evaluated(func() shaped { return asked(t, tenant.Runtime, "create_order", id, map[string]any{"fields": program}) }, func(d shaped) *programFault { return d.FieldsError })
			require.Equal(t, "executed", d.Status)
			require.Equal(t, "null", string(d.Result), program)
			require.NotNil(t, d.FieldsError, program)
			require.Equal(t, code, d.FieldsError.Code, program)
			require.NotContains(t, d.FieldsError.Message, "t-1", "a message repeats no value")
			require.Contains(t, string(asked(t, tenant.Runtime, "create_order", id, nil).Result), fmt.Sprintf(`"id":"o-%d"`, n))
		}
		require.Equal(t, n, h.orders.Load())
	})
}

func TestFieldsCutLargeResults(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant, _ := newWarehouse(t, s)
	id := ids(1)[0]
	for program, want := range map[string]string{`.total`: `7`, `.items[-1].id`: `7`, `.items | length`: "", `{n: [.items[0:500][] | select(.open)] | length}`: `{"n":500}`} {
		d := asked(t, tenant.Runtime, "list_large", id, map[string]any{"fields": program})
		require.Nil(t, d.FieldsError, program)
		if want != "" {
			require.Equal(t, want, string(d.Result), program)
		}
	}
}

// Programs that take all they can get delay nobody but their own tenant.
func TestBombsOfOneTenantDelayNoOther(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	greedy, _ := newWarehouse(t, s)
	modest, _ := newWarehouse(t, s)
	id := ids(1)[0]
	requireRun(t, ask(t, greedy.Runtime, "create_order", id, nil))
	var all sync.WaitGroup
	codes, mu := map[string]int{}, sync.Mutex{}
	for range 50 {
		all.Go(func() {
			d := asked(t, greedy.Runtime, "create_order", id, map[string]any{"fields": `def f: f; f`})
			mu.Lock()
			defer mu.Unlock()
			if d.FieldsError != nil {
				codes[d.FieldsError.Code]++
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	calls := 0
	for over := false; !over; calls++ {
		d := asked(t, modest.Runtime, "list_items", "", map[string]any{"fields": "[.items[].id]"})
		require.Nil(t, d.FieldsError)
		require.Equal(t, `[1,2,3]`, string(d.Result))
		select {
		case <-done:
			over = true
		default:
		}
	}
	require.Greater(t, calls, 1, "the other tenant was answered meanwhile")
	require.Equal(t, 50, codes["EXPRESSION_LIMIT"]+codes["SERVICE_UNAVAILABLE"], codes)
	require.Positive(t, codes["EXPRESSION_LIMIT"])
}

// resultPage is what these tests read of GET /v1/results/{id}.
type resultPage struct {
	Bytes, Offset int
	Items         []json.RawMessage
	Text          *string
}

// pages reads a result until there is no further page.
func pages(t *testing.T, c *rig.Client, id, query string) (all []resultPage) {
	t.Helper()
	for cursor := ""; ; {
		path := "/v1/results/" + id + "?" + query
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		a := c.Do(http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.LessOrEqual(t, len(a.Body), 600<<10)
		var p resultPage
		a.Data(t, &p)
		all = append(all, p)
		var next struct {
			HasMore    bool    `json:"has_more"`
			NextCursor *string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(a.Envelope(t).Pagination, &next))
		require.Equal(t, next.HasMore, next.NextCursor != nil)
		if !next.HasMore {
			return all
		}
		cursor = *next.NextCursor
	}
}

func TestLargeResultIsReadInPages(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, _ := newWarehouse(t, s)
		id := ids(1)[0]
		first := asked(t, tenant.Runtime, "list_large", id, map[string]any{"max_bytes": 4096})
		require.Equal(t, "null", string(first.Result))
		require.True(t, first.Truncated)
		require.Equal(t, id, first.ResultRef)
		require.Greater(t, first.ResultBytes, 3<<20)
		require.Contains(t, first.Message, "/v1/results/"+id)
		whole := asked(t, tenant.Runtime, "list_large", id, nil)
		require.Len(t, whole.Result, first.ResultBytes)
		require.False(t, whole.Truncated)

		var text strings.Builder
		for _, p := range pages(t, tenant.Runtime, id, "") {
			require.Equal(t, first.ResultBytes, p.Bytes)
			require.Equal(t, text.Len(), p.Offset)
			text.WriteString(*p.Text)
		}
		require.Equal(t, string(whole.Result), text.String())

		var items struct{ Items []json.RawMessage }
		require.NoError(t, json.Unmarshal(whole.Result, &items))
		n := 0
		for _, p := range pages(t, tenant.Runtime, id, "path=/items&limit=500&max_bytes=262144") {
			require.Equal(t, n, p.Offset)
			require.LessOrEqual(t, len(p.Items), 500)
			for _, item := range p.Items {
				require.Equal(t, string(items.Items[n]), string(item))
				n++
			}
			if n > 1500 {
				break
			}
		}
		small := asked(t, tenant.Runtime, "list_large", id, map[string]any{"fields": ".total", "max_bytes": 1})
		require.Equal(t, "7", string(small.Result))
		cut := evaluated(func() shaped {
			return asked(t, tenant.Runtime, "list_large", id, map[string]any{"fields": "[.items[0:20][].name]", "max_bytes": 16})
		}, func(d shaped) *programFault { return d.FieldsError })
		require.Equal(t, 20*len(`"some name",`)+1, cut.ResultBytes, "the size of the cut")
		require.True(t, cut.Truncated)
		failed := asked(t, tenant.Runtime, "list_large", id, map[string]any{"fields": "empty"})
		require.Equal(t, id, failed.ResultRef, "the whole result is there to be read")
	})
}

func TestPageOfAResultSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tenant, _ := newWarehouse(t, stack(t, split))
	id := ids(1)[0]
	asked(t, tenant.Runtime, "list_items", id, nil)
	for query, why := range map[string]string{
		"path=items": "query.path", "path=/none": "query.path", "path=/items/9": "query.path", "path=/items/x": "query.path", "path=/note/x": "query.path",
		"path=/" + strings.Repeat("x", 1024): "query.path", "format=xml": "query.format", "limit=0": "query.limit", "max_bytes=10": "query.max_bytes",
		"max_bytes=262145": "query.max_bytes", "cursor=x": "query.cursor", "cursor=AAAAAAAANw": "query.cursor", "offset=1": "query.offset",
	} {
		a := tenant.Runtime.Do(http.MethodGet, "/v1/results/"+id+"?"+query, nil)
		require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s", query, a.Body)
		require.Contains(t, string(a.Envelope(t).Error.Details), why, query)
	}
	for _, body := range []any{0, -1, 4194305, 1.5, "10"} {
		a := ask(t, tenant.Runtime, "list_items", id, map[string]any{"max_bytes": body})
		require.Equal(t, http.StatusBadRequest, a.Status, "%s", a.Body)
	}
	only := func(query string) resultPage {
		all := pages(t, tenant.Runtime, id, query)
		require.Len(t, all, 1, query)
		return all[0]
	}
	require.Equal(t, `"ü"`, *only("path=/note").Text)
	require.Equal(t, `{"id":2,"open":false}`, *only("path=/items/1").Text)
	require.Len(t, only("path=/items").Items, 3)
	require.Contains(t, *only("path=/items&format=text").Text, `[{"id":1,`)
	require.Len(t, pages(t, tenant.Runtime, id, "path=/items&limit=1"), 3)
}

func TestResultIsForItsCallerAndMaskedForOthers(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant, _ := newWarehouse(t, s)
	other, _ := newKey(t, tenant)
	stranger := newTenant(s)
	id := ids(1)[0]
	asked(t, tenant.Runtime, "create_order", id, nil)
	require.Equal(t, `"t-1"`, *pages(t, tenant.Runtime, id, "path=/token")[0].Text, "in the clear, as in the answer of the run")
	require.Equal(t, `"[masked]"`, *pages(t, tenant.User, id, "path=/token")[0].Text)
	for name, c := range map[string]*rig.Client{"another key": other, "another tenant's key": stranger.Runtime, "another tenant's user": stranger.User} {
		a := c.Do(http.MethodGet, "/v1/results/"+id, nil)
		require.Equal(t, http.StatusNotFound, a.Status, name)
		require.Equal(t, "EXECUTION_NOT_FOUND", a.Code(t), name)
	}
	catalog := tenant.User.NewKey(t, "actions:catalog")
	require.Equal(t, http.StatusForbidden, tenant.Runtime.With(catalog.Key, "").Do(http.MethodGet, "/v1/results/"+id, nil).Status)
}

// normalizedData is what these tests read of a normalized form.
type normalizedData struct {
	rig.RunData

	Normalized      json.RawMessage `json:"normalized"`
	NormalizedError *programFault   `json:"normalized_error"`
}

func normalizedOf(t *testing.T, c *rig.Client, verb, id string, more map[string]any) (d normalizedData) {
	t.Helper()
	a := ask(t, c, verb, id, more)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	a.Data(t, &d)
	require.Equal(t, "executed", d.Status)
	return d
}

// correct imports the warehouse again with rules.
func correct(t *testing.T, tenant *rig.Tenant, rules ...any) rig.Answer {
	t.Helper()
	return tenant.User.Do(http.MethodPatch, "/v1/providers/warehouse", map[string]any{"rules": rules})
}

func normalizes(verb, program string) map[string]any {
	return map[string]any{"match": map[string]any{"verb": verb}, "normalized": program}
}

func TestNormalizedFormIsThatOfTheVerbWhenItWasCalled(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, h := newWarehouse(t, s)
		id := ids(4)
		require.JSONEq(t, `{}`, string(normalizedOf(t, tenant.Runtime, "create_order", id[0], nil).Normalized))
		a := correct(t, tenant, normalizes("create_order", `{order: .id, total: .amount, skus: [.lines[].sku]}`))
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.Equal(t, `{"order":"o-2","skus":["a","b"],"total":9007199254740993}`, string(normalizedOf(t, tenant.Runtime, "create_order", id[1], nil).Normalized)) //nolint:testifylint // every digit counts
		cut := normalizedOf(t, tenant.Runtime, "create_order", id[1], map[string]any{"fields": ".state", "max_bytes": 1})
		require.Equal(t, "null", string(cut.Result))
		require.Contains(t, string(cut.Normalized), `"order":"o-2"`, "it is of the whole result")

		a = correct(t, tenant, normalizes("create_order", `{now_other: .id}`))
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		require.Contains(t, string(normalizedOf(t, tenant.Runtime, "create_order", id[1], nil).Normalized), `"order":"o-2"`, "a repeat has the form of its call")
		require.JSONEq(t, `{"now_other":"o-3"}`, string(normalizedOf(t, tenant.Runtime, "create_order", id[2], nil).Normalized))
		require.JSONEq(t, `{}`, string(normalizedOf(t, tenant.Runtime, "create_order", id[0], nil).Normalized), "the first call had none")
		require.JSONEq(t, `{}`, string(normalizedOf(t, tenant.Runtime, "list_items", id[3], nil).Normalized))
		require.EqualValues(t, 3, h.orders.Load())

		a = correct(t, tenant, normalizes("*", `{a: .}`), normalizes("list_items", `.a | now`))
		require.Equal(t, http.StatusBadRequest, a.Status)
		require.Contains(t, string(a.Envelope(t).Error.Details), `"/rules/1/normalized"`)
		require.Contains(t, string(a.Envelope(t).Error.Details), `now is not allowed`)
	})
}

func TestNormalizedFormThatFailsLosesNoOutcome(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	tenant, h := newWarehouse(t, s)
	n := int64(0)
	for program, code := range map[string]string{
		`.lines`: "EXPRESSION_RESULT", `.lines[]`: "EXPRESSION_RESULT", `{a: .id.x}`: "EXPRESSION_ERROR", `{a: ("x" * 70000)}`: "EXPRESSION_LIMIT",
		`def f: f; f`: "EXPRESSION_LIMIT", `{a: [range(1e12)]}`: "EXPRESSION_LIMIT",
	} {
		require.Equal(t, http.StatusOK, correct(t, tenant, normalizes("create_order", program)).Status, program)
		n++
		id := ids(1)[0]
		for range 2 {
			d := evaluated(func() normalizedData { return normalizedOf(t, tenant.Runtime, "create_order", id, nil) }, func(d normalizedData) *programFault { return d.NormalizedError })
			require.JSONEq(t, `{}`, string(d.Normalized))
			require.NotNil(t, d.NormalizedError, program)
			require.Equal(t, code, d.NormalizedError.Code, program)
			require.Contains(t, string(d.Result), fmt.Sprintf(`"id":"o-%d"`, n))
		}
	}
	require.Equal(t, n, h.orders.Load())
}
