package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"agentruntime/internal/base/flow"
)

// ready is what the ready file says. A part that does not run is left out.
type ready struct {
	APIURL          string `json:"api_url,omitempty"`
	TemporalAddress string `json:"temporal_address,omitempty"`
	TemporalUIURL   string `json:"temporal_ui_url,omitempty"`
	// DatabaseURL is of a role that row-level security does not bind, for psql and pg_dump.
	DatabaseURL string `json:"database_url,omitempty"`
	SandboxURL  string `json:"sandbox_url,omitempty"`
	// MailboxURL shows the mail that the service sent.
	MailboxURL string `json:"mailbox_url,omitempty"`
	// AppDatabaseURL and VisibilityURL are for the processes of the split lane.
	AppDatabaseURL string `json:"app_database_url,omitempty"`
	VisibilityURL  string `json:"visibility_url,omitempty"`

	tenant tenant
}

// MarshalJSON adds the tenant, whose shop key is nobody's business.
func (r ready) MarshalJSON() ([]byte, error) {
	type plain ready
	return json.Marshal(struct {
		plain
		TenantID   string `json:"tenant_id,omitempty"`
		Email      string `json:"email,omitempty"`
		Password   string `json:"password,omitempty"`
		RuntimeKey string `json:"runtime_key,omitempty"`
		AgentKey   string `json:"agent_key,omitempty"`
		MapID      string `json:"map_id,omitempty"`
		AgentID    string `json:"agent_id,omitempty"`
		GoalAgent  string `json:"goal_agent_id,omitempty"`
		FlowAgent  string `json:"workflow_agent_id,omitempty"`
	}{plain(r), r.tenant.TenantID, r.tenant.Email, r.tenant.Password, r.tenant.RuntimeKey, r.tenant.AgentKey, r.tenant.MapID, r.tenant.AgentID, r.tenant.GoalAgentID, r.tenant.WorkflowAgentID})
}

// writeReady writes the ready file, whole or not at all.
func (s *stack) writeReady() error {
	if s.readyFile == "" {
		return nil
	}
	return writeFile(s.readyFile, s.ready)
}

// announce writes the ready file and tells a person what runs.
func (s *stack) announce(w io.Writer) error {
	if err := s.writeEnv(); err != nil {
		return err
	}
	if err := s.writeReady(); err != nil {
		return err
	}
	return banner.Execute(w, map[string]any{"Ready": s.ready, "Tenant": s.ready.tenant, "Data": s.data, "Note": temporalNote, "Waiting": s.waitingURL()})
}

// waitingURL is the list of the calls that wait for approval, in the Temporal UI, with the
// search attributes as columns.
func (s *stack) waitingURL() string {
	return s.ready.TemporalUIURL + uiStartPath + "?query=" +
		url.QueryEscape(string(flow.AttributeState)+`="`+string(flow.StatePending)+`"`)
}

// writeEnv writes, for shells, a file that sets what the examples of the pages use.
func (s *stack) writeEnv() error {
	var text strings.Builder
	for _, v := range []struct{ name, value string }{
		{"API", s.ready.APIURL},
		{"TEMPORAL_UI", s.ready.TemporalUIURL},
		{"KEY", s.ready.tenant.RuntimeKey},
		{"AGENT_KEY", s.ready.tenant.AgentKey},
		{"EMAIL", s.ready.tenant.Email},
		{"PASSWORD", s.ready.tenant.Password},
		{"MAP", s.ready.tenant.MapID},
		{"AGENT", s.ready.tenant.AgentID},
		{"GOAL_AGENT", s.ready.tenant.GoalAgentID},
		{"WORKFLOW_AGENT", s.ready.tenant.WorkflowAgentID},
	} {
		fmt.Fprintf(&text, "export %s='%s'\n", v.name, v.value) // URLs and what we made up: no quote is in them
	}
	return writePrivate(filepath.Join(s.data, "env"), text.String())
}

// writeFile writes v as JSON into a file that only its owner may read; it takes
// its name when it is whole.
func writeFile(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writePrivate(path, string(text)+"\n")
}

func writePrivate(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ready-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

var banner = template.Must(template.New("").Parse(`
Agent Runtime is running.

  API          {{.Ready.APIURL}}   (docs at {{.Ready.APIURL}}/docs)
{{- with .Ready.TemporalUIURL}}
  Temporal UI  {{.}}
    waiting    {{$.Waiting}}
{{- end}}
  Temporal     {{.Ready.TemporalAddress}}{{.Note}}
  Postgres     {{.Ready.DatabaseURL}}
  Sandbox      {{.Ready.SandboxURL}}   (provider "shop")
  Mailbox      {{.Ready.MailboxURL}}
  Login        {{.Tenant.Email}} / {{.Tenant.Password}}
  Runtime key  {{.Tenant.RuntimeKey}}
  Agent key    {{.Tenant.AgentKey}}
  Data         {{.Data}}

Try it:

# what can be done
curl -s '{{.Ready.APIURL}}/v1/runtime/actions/catalog?provider=shop&limit=3' -H 'X-API-Key: {{.Tenant.RuntimeKey}}'

# may this be done? (nothing runs)
curl -s {{.Ready.APIURL}}/v1/runtime/governance/evaluate -H 'X-API-Key: {{.Tenant.RuntimeKey}}' -H 'Content-Type: application/json' -d '{"verb":"shop:create_refund","args":{"order_id":"ord_1001"}}'

# read
curl -s {{.Ready.APIURL}}/v1/runtime/actions/run -H 'X-API-Key: {{.Tenant.RuntimeKey}}' -H 'Content-Type: application/json' -d '{"verb":"shop:get_order","args":{"order_id":"ord_1001"}}'

# write: send it twice, one message goes out
curl -s {{.Ready.APIURL}}/v1/runtime/actions/run -H 'X-API-Key: {{.Tenant.RuntimeKey}}' -H 'Content-Type: application/json' -d '{"verb":"shop:send_message","args":{"customer_id":"cus_1001","channel":"email","subject":"Hello","body":"Your lamp is on its way."},"execution_id":"hello-1"}'

# what came of it
curl -s {{.Ready.APIURL}}/v1/executions/hello-1 -H 'X-API-Key: {{.Tenant.RuntimeKey}}'

# a Map: it reads the order, gives a credit and writes to the customer; once for a session_id
curl -s {{.Ready.APIURL}}/v1/maps/{{.Tenant.MapID}}/trigger -H 'X-API-Key: {{.Tenant.RuntimeKey}}' -H 'Content-Type: application/json' -d '{"session_id":"return-1","payload":{"order_id":"ord_1001"}}'

# an agent, which answers offline by rules: it reads the order
curl -s {{.Ready.APIURL}}/v1/agents/{{.Tenant.AgentID}}/message -H 'X-API-Key: {{.Tenant.AgentKey}}' -H 'Content-Type: application/json' -d '{"message":"Where is order 1001?","session_id":"first"}'

# an agent that works towards a goal: it reads the order, and writes to its customer
curl -s {{.Ready.APIURL}}/v1/agents/{{.Tenant.GoalAgentID}}/goals -H 'X-API-Key: {{.Tenant.AgentKey}}' -H 'Content-Type: application/json' -d '{"goal":"Tell the customer of order ord_1001 by email that the order is on its way."}'

# an agent that works by a Map, step by step; without an id it asks which order, and the next message answers
curl -s {{.Ready.APIURL}}/v1/agents/{{.Tenant.WorkflowAgentID}}/message -H 'X-API-Key: {{.Tenant.AgentKey}}' -H 'Content-Type: application/json' -d '{"message":"Where is order ord_1001?","session_id":"orders"}'

README.md shows how a refund goes from blocked to approved. For a second shell:

. {{.Data}}/env   # sets and exports API, TEMPORAL_UI, KEY, AGENT_KEY, EMAIL, PASSWORD, MAP, AGENT, GOAL_AGENT, WORKFLOW_AGENT

Ctrl-C ends everything.
`))
