package access

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileTexts are names as someone may enter them who wants to harm those that show them.
func hostileTexts() []string {
	return []string{
		`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, "\u202egnp.exe", "\u2066right\u2069 to left", "a\u200bb", `'; DROP TABLE customers; --`,
		`{{.Secret}}`, `${jndi:ldap://x}`, `=cmd|' /C calc'!A0`, "\u0645\u0631\u062d\u0628\u0627", "\U0001F469\u200d\U0001F4BB", `%s%n`, `\u0000`, "..\\..\\x", strings.Repeat("ẞ", 255),
	}
}

// A text is stored as it was sent, or refused by name; an answer is always JSON that a browser
// does not take for a page.
func TestHostileTextsOfACustomerComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "hostile-customers")
	type record struct {
		Name     string
		Tags     []string
		Metadata map[string]any
	}
	for i, text := range hostileTexts() {
		sent := map[string]any{"external_id": fmt.Sprint("hostile-", i), "name": text, "metadata": map[string]any{text: []any{text}}}
		a := own.User.Do(http.MethodPost, "/v1/customers", sent)
		require.Equal(t, http.StatusCreated, a.Status, "%q: %s", text, a.Body)
		require.Contains(t, a.Header.Get("Content-Type"), "application/json")
		require.NotContains(t, string(a.Body), "<")
		read := own.User.Do(http.MethodGet, fmt.Sprint("/v1/customers/hostile-", i), nil)
		var got record
		read.Data(t, &got)
		require.Equal(t, text, got.Name)
		require.Equal(t, map[string]any{text: []any{text}}, got.Metadata)
	}
	for what, body := range map[string]string{
		"NUL in a name":            `{"external_id":"x","name":"a\u0000b"}`,
		"NUL in metadata":          `{"external_id":"x","metadata":{"a":"\u0000"}}`,
		"a line break in a name":   `{"external_id":"x","name":"a\nb"}`,
		"an escape in a name":      `{"external_id":"x","name":"\u001b[31m"}`,
		"an invisible tag":         `{"external_id":"x","tags":["\u202e"]}`,
		"half a character":         `{"external_id":"x","name":"\ud800"}`,
		"a member twice":           `{"external_id":"x","name":"a","NAME":"b"}`,
		"more than 16 KiB of text": `{"external_id":"x","metadata":{"a":"` + strings.Repeat("x", 16<<10) + `"}}`,
		"deep metadata":            `{"external_id":"x","metadata":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70) + `}`,
	} {
		a := w.call(t, request{method: http.MethodPost, path: "/v1/customers", header: bearer(own.token), body: []byte(body)})
		require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s", what, clip(a.Body))
	}
	for _, search := range []string{"%25", "_", "%27%3B--", "%E2%80%AE", "%5C", strings.Repeat("a", 120)} {
		a := own.User.Do(http.MethodGet, "/v1/customers?search="+search, nil)
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", search, a.Body)
	}
}

// After an erasure no table but the audit trail has anything of the person.
func TestErasureLeavesNothingOfAPerson(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	own := w.newTenant(t, "erasing")
	const canary = "c4n4ry-person"
	var made struct {
		ID string `json:"id"`
	}
	own.User.Do(http.MethodPost, "/v1/customers", map[string]any{
		"external_id": canary, "email": canary + "@example.com", "name": canary + " name", "metadata": map[string]any{"note": canary}, "tags": []string{canary},
	}).Data(t, &made)
	own.User.Do(http.MethodPost, "/v1/credentials", map[string]any{
		"provider": own.provider, "type": "api_key", "label": canary, "customer_id": canary, "data": map[string]string{"key": shopKey},
	}).Data(t, &struct{}{})
	granted := own.User.Do(http.MethodPost, "/v1/grants", map[string]any{
		"verb": own.provider + ":create_refund", "expires_at": soon(), "max_uses": 1, "reason": canary, "customer_id": canary,
	})
	require.Equal(t, http.StatusCreated, granted.Status, "%s", granted.Body)
	for i, name := range []string{canary, made.ID} {
		ran := own.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
			"verb": own.provider + ":create_order", "args": map[string]any{"customer_id": canary, "amount": 1, "currency": "eur"}, "execution_id": fmt.Sprint("of-the-person-", i),
			"metadata": map[string]string{"customer_id": name, "note": canary},
		})
		require.NotEqual(t, http.StatusInternalServerError, ran.Status, "%s", ran.Body)
	}
	var mapped struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/maps?publish=true", map[string]any{"schema_version": "1", "name": "orders", "steps": []any{
		map[string]any{"id": "told", "type": "wait", "event": map[string]any{"type": "go"}},
		map[string]any{"id": "order", "type": "verb", "verb": own.provider + ":create_order", "args": map[string]any{"customer_id": "cus_1001", "amount": 1, "currency": "eur"}},
	}}).Data(t, &mapped)
	triggered := own.User.Do(http.MethodPost, "/v1/maps/"+mapped.ID+"/trigger", map[string]any{"customer_id": made.ID, "payload": map[string]string{"note": canary}}, "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, triggered.Status, "%s", triggered.Body)
	execution := triggered.Header.Get("Location")
	signalled := own.User.Do(http.MethodPost, execution+"/signal", map[string]any{"name": "go", "data": map[string]string{"note": canary, "password": "hidden-" + canary}})
	require.Equal(t, http.StatusOK, signalled.Status, "%s", signalled.Body)
	ended := own.User.Do(http.MethodGet, execution, nil, "Prefer: wait=60")
	require.Contains(t, string(ended.Body), `"status":"completed"`)
	held := own.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
		"verb": own.provider + ":create_ticket", "args": map[string]any{"customer_id": canary, "subject": canary, "body": canary}, "execution_id": "held-of-the-person",
		"metadata": map[string]string{"customer_id": canary},
	})
	approval := held.Envelope(t).Error.ApprovalID
	require.NotEmpty(t, approval, "%s", held.Body)
	a := own.User.Decide(approval, "reject", map[string]string{"reason": "no"})
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)

	var agent struct{ ID string }
	own.User.Do(http.MethodPost, "/v1/agents", map[string]any{"name": "Helper", "tools": map[string]any{"allow": []string{}}}).Data(t, &agent)
	writer := own.Runtime.With(own.User.NewKey(t, "agents:message").Key, "")
	said := writer.Do(http.MethodPost, "/v1/agents/"+agent.ID+"/message", map[string]any{
		"message": "This is " + canary + ", password: hidden-" + canary, "session_id": "of-the-person", "customer_id": canary, "metadata": map[string]string{"note": canary},
	}, "Prefer: wait=60")
	require.Equal(t, http.StatusOK, said.Status, "%s", said.Body)
	var reply struct {
		ExecutionID string `json:"execution_id"`
	}
	said.Data(t, &reply)
	rated := writer.Do(http.MethodPut, "/v1/executions/"+reply.ExecutionID+"/feedback", map[string]string{"rating": "down", "comment": canary})
	require.Equal(t, http.StatusOK, rated.Status, "%s", rated.Body)

	var export struct {
		Sessions []struct {
			AgentID    string  `json:"agent_id"`
			SessionID  *string `json:"session_id"`
			CustomerID string  `json:"customer_id"`
		}
		SessionMessages []struct {
			SessionID *string `json:"session_id"`
			Message   struct {
				From, Text  string
				ExecutionID *string `json:"execution_id"`
				Feedback    []struct{ Rating, Comment string }
			}
		} `json:"session_messages"`
		MessageExecutions []struct {
			ExecutionID string `json:"execution_id"`
			Metadata    struct{ Note string }
		} `json:"message_executions"`
		Customer    struct{ ID string }
		Identifiers []struct{ Kind, Value string }
		Executions  []struct {
			ExecutionID string `json:"execution_id"`
			Args        map[string]any
			ErasedAt    *string `json:"erased_at"`
		}
		MapExecutions []struct {
			ExecutionID string `json:"execution_id"`
		} `json:"map_executions"`
		MapSteps []struct {
			MapExecutionID string `json:"map_execution_id"`
			Step           struct{ ID string }
		} `json:"map_steps"`
		MapSignals []struct {
			MapExecutionID string `json:"map_execution_id"`
			Name           string
			Data           struct{ Note, Password string }
			SentBy         string `json:"sent_by"`
		} `json:"map_signals"`
		Approvals, Credentials, Grants []map[string]any
		Events                         []struct {
			Event      map[string]any
			Deliveries []map[string]any
		}
		Complete bool
	}
	file := own.User.Do(http.MethodGet, "/v1/customers/"+canary+"/export", nil)
	require.Equal(t, http.StatusOK, file.Status, "%s", file.Body)
	require.NoError(t, json.Unmarshal(file.Body, &export), "%s", file.Body)
	require.True(t, export.Complete)
	require.Equal(t, made.ID, export.Customer.ID)
	require.Len(t, export.Identifiers, 3) // both ids and the address
	require.Len(t, export.Executions, 4)  // the call of a step is one
	require.Len(t, export.MapExecutions, 1)
	require.Len(t, export.MapSteps, 2)
	require.Equal(t, export.MapExecutions[0].ExecutionID, export.MapSteps[1].MapExecutionID)
	require.Equal(t, "order", export.MapSteps[1].Step.ID)
	require.Len(t, export.MapSignals, 1)
	signal := export.MapSignals[0]
	require.Equal(t, export.MapExecutions[0].ExecutionID, signal.MapExecutionID)
	require.Equal(t, []string{"go", canary}, []string{signal.Name, signal.Data.Note})
	require.Contains(t, signal.SentBy, "user:")
	require.NotContains(t, signal.Data.Password, canary)
	require.Equal(t, "held-of-the-person", export.Executions[0].ExecutionID)
	require.Equal(t, canary, export.Executions[0].Args["subject"])
	require.Len(t, export.Sessions, 1)
	require.Equal(t, []string{agent.ID, "of-the-person", made.ID}, []string{export.Sessions[0].AgentID, *export.Sessions[0].SessionID, export.Sessions[0].CustomerID})
	require.Len(t, export.SessionMessages, 2)
	agents, customers := export.SessionMessages[0], export.SessionMessages[1]
	require.Equal(t, []string{"agent", "customer", "of-the-person"}, []string{agents.Message.From, customers.Message.From, *customers.SessionID})
	require.Contains(t, customers.Message.Text, "This is "+canary)
	require.NotContains(t, customers.Message.Text, "hidden-", "it is masked")
	require.Equal(t, []struct{ Rating, Comment string }{{"down", canary}}, agents.Message.Feedback, "%s", file.Body)
	require.Len(t, export.MessageExecutions, 1)
	require.Equal(t, []string{reply.ExecutionID, canary}, []string{export.MessageExecutions[0].ExecutionID, export.MessageExecutions[0].Metadata.Note})
	require.Len(t, export.Approvals, 1)
	require.Len(t, export.Credentials, 1)
	require.Len(t, export.Grants, 1)
	require.NotEmpty(t, export.Events)
	require.NotContains(t, string(file.Body), shopKey)
	exported := own.User.Do(http.MethodGet, "/v1/audit?action=customer.exported&subject="+made.ID, nil)
	require.Contains(t, string(exported.Body), `"customer.exported"`)

	gone := own.User.Do(http.MethodDelete, "/v1/customers/"+canary, nil)
	require.Equal(t, http.StatusOK, gone.Status, "%s", gone.Body)
	report := own.awaitErasure(t, made.ID)
	require.Contains(t, string(report.Body), `{"kind":"executions","count":4}`)
	require.Contains(t, string(report.Body), `{"kind":"credentials","count":1}`)
	require.Contains(t, string(report.Body), `{"kind":"sessions","count":1}`)
	require.Equal(t, http.StatusNotFound, own.User.Do(http.MethodGet, "/v1/executions/"+reply.ExecutionID, nil).Status)
	require.Contains(t, string(report.Body), `{"kind":"grants","count":1}`)
	conn := w.admin(t)
	for table, column := range tables(t, conn) {
		if column == "" || table == "audit_records" {
			continue
		}
		var n int
		sql := fmt.Sprintf("SELECT count(*) FROM %s AS r WHERE r.%s = $1 AND r::text LIKE '%%' || $2::text || '%%'", quoted(table), quoted(column))
		require.NoError(t, conn.QueryRow(context.Background(), sql, own.id, canary).Scan(&n), table)
		require.Zero(t, n, "%s has something of the person", table)
	}
	again := own.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
		"verb": own.provider + ":create_order", "args": map[string]any{"customer_id": canary, "amount": 1, "currency": "eur"}, "execution_id": "of-the-person-0",
	})
	require.Contains(t, string(again.Body), `"RESULT_EXPIRED"`)
}
