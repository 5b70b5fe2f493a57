package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/dev/sandbox"
	"agentruntime/internal/provider/correction"
	"agentruntime/internal/provider/openapi"
	"agentruntime/internal/provider/overlay"
)

// Policies, rules and overlays that the pages show are ones that the service takes. Of a policy a page may
// show a part: what is missing is added. Other blocks are of other tests.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, page := range pages(t) {
		for _, block := range fences.FindAllString(read(t, page), -1) {
			text, isJSON := strings.CutPrefix(strings.TrimLeft(block, " "), "```json\n")
			if !isJSON {
				continue
			}
			text, _, _ = strings.Cut(text, "```")
			for values := json.NewDecoder(strings.NewReader(text)); values.More(); {
				var example json.RawMessage
				require.NoError(t, values.Decode(&example), "%s:\n%s", page, text)
				seen[accepted(t, page, example)]++
			}
		}
	}
	t.Log(seen)
	require.GreaterOrEqual(t, seen["policy"], 20)
	require.GreaterOrEqual(t, seen["rule"], 2)
	require.Positive(t, seen["overlay"])
}

// accepted requires that the service takes an example, and returns what kind it is: "" for one that this
// test is not about.
func accepted(t *testing.T, page string, example json.RawMessage) (kind string) {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(example, &members) != nil {
		return ""
	}
	has := func(name string) bool { return members[name] != nil }
	switch {
	case has("overlay"):
		_, faults := overlay.Read(example)
		require.Empty(t, faults, "%s:\n%s", page, example)
		return "overlay"
	case has("verbMatchers") || has("conditions"):
		require.Empty(t, governance.CheckPolicy(policyOf(t, page, example)), "%s:\n%s", page, example)
		return "policy"
	case has("operator"):
		body := json.RawMessage(`{"conditions":[` + string(example) + `]}`)
		require.Empty(t, governance.CheckPolicy(policyOf(t, page, body)), "%s:\n%s", page, example)
		return "policy"
	case has("match"):
		var rule correction.Rule
		strictly(t, page, example, &rule)
		const base = "https://shop.example"
		_, err := openapi.Import(t.Context(), openapi.ImportInput{Slug: "shop", BaseURL: base, Document: sandbox.Document(base), Rules: []correction.Rule{rule}})
		require.NoError(t, err, "%s:\n%s", page, example)
		return "rule"
	}
	return ""
}

// policyOf reads the body of POST /v1/policies, or a part of one.
func policyOf(t *testing.T, page string, example json.RawMessage) governance.Policy {
	t.Helper()
	body := struct {
		Name         string                  `json:"name"`
		VerbMatchers []governance.Matcher    `json:"verbMatchers"`
		Match        governance.Narrowing    `json:"match"`
		Conditions   []governance.Condition  `json:"conditions"`
		Lookups      []governance.Lookup     `json:"lookups"`
		Action       struct{ Type string }   `json:"action"`
		Approval     governance.ApprovalRule `json:"approval"`
	}{Name: "example", Approval: governance.DefaultApproval()}
	body.Action.Type = string(governance.ActionBlock)
	strictly(t, page, example, &body)
	return governance.Policy{
		Name: body.Name, Matchers: body.VerbMatchers, Match: body.Match, Conditions: body.Conditions, Lookups: body.Lookups,
		Action: governance.Action(body.Action.Type), Approval: body.Approval,
	}
}

// strictly reads the example into what it is for: a member that is not known is a mistake of the page.
func strictly(t *testing.T, page string, example json.RawMessage, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(example)))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), "%s:\n%s", page, example)
}
