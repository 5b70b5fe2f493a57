package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// Canaries of values that only the caller of a Map may see: by their name, by a mark in the schema of
// the verb, by the tenant's list for arguments and results, and as a secret that the tenant has stored.
type canariesOfMap struct{ password, locker, note, diagnosis, token string }

func (c canariesOfMap) all() []string {
	return []string{c.password, c.locker, c.note, c.diagnosis, c.token}
}

// boxes are the writes that a lockbox got.
type boxes struct {
	mu  sync.Mutex
	set []string
}

func (b *boxes) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.set)
}

// lockbox is a provider that answers with secrets.
func lockbox(t *testing.T, tenant *rig.Tenant, secret canariesOfMap) *boxes {
	t.Helper()
	var got boxes
	answer, err := json.Marshal(map[string]string{"id": "1", "password": secret.password, "diagnosis": secret.diagnosis, "mood": "calm"})
	require.NoError(t, err)
	base := rig.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut {
			got.mu.Lock()
			got.set = append(got.set, string(body))
			got.mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	doc := document(bearer(),
		operation{method: http.MethodGet, path: "/box", id: "get_box", args: []string{"id"}},
		operation{method: http.MethodPut, path: "/box", id: "set_box", args: []string{"id", "password", "locker", "note"}, runtime: map[string]any{
			"read_back": map[string]any{"verb": "get_box", "args": map[string]any{"id": "${args.id}"}, "match": map[string]any{"equals": map[string]any{"id": "${args.id}"}}},
		}},
	)
	doc = json.RawMessage(strings.ReplaceAll(string(doc), `"locker":{"type":"string"}`, `"locker":{"type":"string","x-sensitive":true}`))
	tenant.Connect(t, "lockbox", base, doc, "bearer", map[string]string{"token": secret.token})
	masks := []map[string]string{{"verb": "lockbox:*", "path": "result.diagnosis"}, {"verb": "lockbox:get_box", "path": "result.mood"}, {"verb": "lockbox:set_box", "path": "args.note"}}
	require.Equal(t, http.StatusOK, tenant.User.Do(http.MethodPut, "/v1/governance/masking", map[string]any{"paths": masks}).Status)
	return &got
}

func newCanaries() canariesOfMap {
	return canariesOfMap{"password-" + uuid.NewString(), "locker-" + uuid.NewString(), "note-" + uuid.NewString(), "diagnosis-" + uuid.NewString(), "token-" + uuid.NewString()}
}

const (
	maskedArgs   = `{"id":"1","password":"[masked]","locker":"[masked]","note":"[masked]"}`
	maskedResult = `{"id":"1","password":"[masked]","diagnosis":"[masked]","mood":"[masked]"}`
	// maskedWrite is the same answer to the write, whose mood the tenant shows.
	maskedWrite = `{"id":"1","password":"[masked]","diagnosis":"[masked]","mood":"calm"}`
)

// What steps get and give is masked like arguments and results of runs, wherever it is read. Only the
// answer to the trigger has it.
func TestStepsOfAMapAreShownMasked(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		secret := newCanaries()
		lockbox(t, tenant, secret)
		trigger := publish(t, tenant, "Has secrets", `[
			{"id":"seen","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}},
			{"id":"made","type":"verb","verb":"lockbox:set_box","args":{"id":"1","password":"${steps.seen.output.password}","locker":"${trigger_data.locker}","note":"${trigger_data.note}"}},
			{"id":"all","type":"transform","expr":{"password":"${steps.seen.output.password}"}}]`)
		payload := map[string]any{"locker": secret.locker, "note": secret.note}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": payload}, "Prefer: wait=60"), http.StatusOK)
		require.JSONEq(t, `{"password":"`+secret.password+`"}`, string(one.Output), "the caller reads its output")
		dry, _ := dryRunOf(t, tenant, trigger, payload)
		for _, reader := range []*rig.Client{tenant.User, tenant.Runtime} {
			path := "/v1/executions/" + one.ExecutionID
			read := secret.in(t, reader, path)
			require.JSONEq(t, `{"password":"[masked]"}`, string(read.Output))
			require.JSONEq(t, maskedResult, string(read.step("seen").Output))
			require.JSONEq(t, maskedArgs, string(read.step("made").Input))
			require.JSONEq(t, maskedWrite, string(read.step("made").Output))
			require.JSONEq(t, `{"password":"[masked]"}`, string(read.step("all").Output))

			made := secret.in(t, reader, dry).step("made")
			require.JSONEq(t, maskedArgs, string(made.Input))
			require.JSONEq(t, maskedResult, string(made.Output), "it is what the read-back has read")
			var set changeSet
			reader.Do(http.MethodGet, dry+"/changes", nil).Data(t, &set)
			require.Len(t, set.Changes, 1)
			require.JSONEq(t, maskedArgs, string(set.Changes[0].Args))
			require.JSONEq(t, maskedResult, string(set.Changes[0].Before))
		}

		// So are the outputs of blocks, and that of a Map which says none: what its last step gave.
		trigger = publish(t, tenant, "Says no output", `[
			{"id":"each","type":"foreach","items":["1","2"],"steps":[{"id":"one","type":"verb","verb":"lockbox:get_box","args":{"id":"${item}"}}]},
			{"id":"both","type":"parallel","branches":[
				{"id":"left","steps":[{"id":"l","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}}]},
				{"id":"right","steps":[{"id":"r","type":"foreach","items":["1"],"steps":[{"id":"in","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}}]}]}]},
			{"id":"never","type":"transform","skip_if":"${true}","expr":"1"}]`)
		one = mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
		require.Contains(t, string(one.Output), secret.diagnosis, "the caller reads its output")
		for _, read := range secret.ended(t, tenant, one.ExecutionID, `{"left":`+maskedResult+`,"right":[`+maskedResult+`]}`) {
			require.JSONEq(t, string(read.Output), string(read.step("both").Output))
			require.JSONEq(t, `[`+maskedResult+`,`+maskedResult+`]`, string(read.step("each").Output))
		}

		// An edited input is in the audit trail.
		trigger = publish(t, tenant, "Fails first", `[
			{"id":"check","type":"validate","value":"${trigger_data.ready}","schema":{"enum":[true,{"with":"`+secret.token+`"}]}},
			{"id":"made","type":"verb","verb":"lockbox:set_box","args":{"id":"1"}},
			{"id":"done","type":"transform","expr":"done"}]`)
		path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"ready": false}})
		mended := edits("check", map[string]any{"with": secret.token})
		mended["edits"].(map[string]any)["made"] = map[string]any{"id": "1", "password": secret.password, "locker": secret.locker, "note": secret.note}
		mapExecutionOf(t, tenant.User.Do(http.MethodPost, path+"/retry", mended, "Prefer: wait=60"), http.StatusOK)
		require.JSONEq(t, maskedArgs, string(secret.in(t, tenant.User, path).step("made").Input))
		trail := tenant.User.Do(http.MethodGet, "/v1/audit?action=map.retried", nil)
		require.Contains(t, string(trail.Body), `"made":`)
		require.Contains(t, string(trail.Body), `"check":{"with":"[masked]"}`)
		for _, canary := range secret.all() {
			require.NotContains(t, string(trail.Body), canary)
		}
	})
}

// What people decide about is shown without the secrets that the tenant has stored. An edit that
// leaves one out keeps it.
func TestApprovalOfAMapShowsNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		secret := newCanaries()
		lockbox(t, tenant, secret)
		second, _ := tenant.User.NewUser(t, rig.Address(), "approver")
		trigger := publish(t, tenant, "Asks with a secret", `[
			{"id":"ask","type":"approval","title":"${trigger_data.with}","required":2,"payload":{"n":1,"with":"${trigger_data.with}"}},
			{"id":"kept","type":"transform","expr":"${steps.ask.output.payload.with == trigger_data.with}"}]`)
		body := map[string]any{"payload": map[string]any{"with": secret.token}}
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=0"), http.StatusAccepted)
		path := "/v1/executions/" + one.ExecutionID
		id := awaitAsking(t, tenant, path)
		shown := func(id, n string) {
			a := tenant.User.Do(http.MethodGet, "/v1/approvals/"+id, nil)
			require.NotContains(t, string(a.Body), secret.token)
			var read decidedApproval
			a.Data(t, &read)
			require.JSONEq(t, `{"n":`+n+`,"with":"[masked]"}`, string(read.Args))
			require.Equal(t, "[masked]", read.Reason)
		}
		shown(id, "1")
		edited := decide(t, tenant.User, id, "approve", map[string]any{"edited_args": map[string]any{"n": 2}})
		shown(edited.ID, "2")
		decide(t, second, edited.ID, "approve", nil)
		require.Equal(t, "completed", ended(t, tenant, path).Status)
		require.Equal(t, "true", string(ended(t, tenant, path).Output))
		for _, of := range []string{"/v1/events", path + "/events", "/v1/audit", "/v1/approvals"} {
			require.NotContains(t, string(tenant.User.Do(http.MethodGet, of, nil).Body), secret.token, of)
		}
	})
}

// What emit and escalate steps tell goes to all who follow the events.
func TestEventsOfStepsShowNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		secret := newCanaries()
		lockbox(t, tenant, secret)
		trigger := publish(t, tenant, "Tells a secret", `[
			{"id":"tell","type":"emit","event":"custom.box.opened","data":{"n":1,"with":"${trigger_data.with}"}},
			{"id":"call","type":"escalate","reason":"${trigger_data.with}"}]`)
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"with": secret.token}}, "Prefer: wait=60"), http.StatusOK)
		for _, of := range []string{"/v1/events", "/v1/executions/" + one.ExecutionID + "/events"} {
			var told string
			rig.Until(t, arriveLimit, "the events are complete", func() bool {
				told = string(tenant.User.Do(http.MethodGet, of, nil).Body)
				return strings.Contains(told, `{"n":1,"with":"[masked]"}`) && strings.Contains(told, `"reason":"[masked]"`)
			})
			require.NotContains(t, told, secret.token, of)
		}
	})
}

// An output shows no stored secret, whatever has made it. Its caller and a Map around it get it as it is.
func TestOutputOfAMapShowsNoStoredSecret(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant := newTenant(s)
		secret := newCanaries()
		lockbox(t, tenant, secret)
		body := map[string]any{"payload": map[string]any{"with": secret.token}}
		transform := `"steps":[{"id":"all","type":"transform","expr":{"n":1,"with":"${trigger_data.with}"}}]`
		var last string
		for name, definition := range map[string]string{"by its last step": transform, "by its own words": transform + `,"output":{"n":1,"with":"${steps.all.output.with}"}`} {
			a := tenant.User.Do(http.MethodPost, "/v1/maps?publish=true", json.RawMessage(`{"schema_version":"1","name":"`+name+`",`+definition+`}`))
			require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
			var made struct{ ID string }
			a.Data(t, &made)
			last = made.ID
			one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, "/v1/maps/"+made.ID+"/trigger", body, "Prefer: wait=60"), http.StatusOK)
			require.JSONEq(t, `{"n":1,"with":"`+secret.token+`"}`, string(one.Output), "the caller reads its output")
			secret.ended(t, tenant, one.ExecutionID, `{"n":1,"with":"[masked]"}`)
		}
		trigger := publish(t, tenant, "Around it", `[{"id":"in","type":"map","map_id":"`+last+`","payload":"${trigger_data}"},
			{"id":"same","type":"transform","expr":"${steps.in.output.with == trigger_data.with}"}]`)
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "true", string(one.Output))
	})
}

// What another Map without an output has given is masked like what its last step gave, by the version that
// ran. What another Map says itself is its own.
func TestOutputOfAMapHasNoMaskedResultOfOtherMaps(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := newTenant(s), newCanaries()
		lockbox(t, tenant, secret)
		reads := mapID(publish(t, tenant, "Reads", `[{"id":"box","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}}]`))
		writes := mapID(publish(t, tenant, "Writes", `[{"id":"box","type":"verb","verb":"lockbox:set_box","args":{"id":"1"}}]`))
		says := publishedMap(t, tenant, `{"schema_version":"1","name":"Says one","steps":[{"id":"box","type":"verb","verb":"lockbox:get_box","args":{"id":"1"}}],"output":{"said":"${steps.box.output.mood}"}}`)
		between := mapID(publish(t, tenant, "Between", `[{"id":"in","type":"map","map_id":"`+reads+`"},{"id":"never","type":"transform","skip_if":"${true}","expr":"1"}]`))
		trigger := publish(t, tenant, "Around", `[
			{"id":"no","type":"raise","error":{"code":"NO_WAY"},"catch":[{"errors":["*"],"steps":[{"id":"caught","type":"map","map_id":"`+reads+`"}]}]},
			{"id":"both","type":"parallel","branches":[
				{"id":"left","steps":[{"id":"l","type":"map","map_id":"`+between+`"}]},
				{"id":"right","steps":[{"id":"each","type":"foreach","items":[1],"steps":[{"id":"r","type":"map","map_id":"`+reads+`","version":1}]}]},
				{"id":"wrote","steps":[{"id":"w","type":"map","map_id":"`+writes+`"}]},
				{"id":"says","steps":[{"id":"s","type":"map","map_id":"`+says+`"}]},
				{"id":"later","steps":[{"id":"x","type":"map","map_id":"`+writes+`","wait":false},{"id":"y","type":"transform","expr":"${steps.x.output.execution_id != null}"}]}]}]`)
		// The result of the write has the place of those of other calls, whose mood the tenant hides.
		const shown = `{"left":` + maskedResult + `,"right":[` + maskedResult + `],"wrote":` + maskedResult + `,"says":{"said":"calm"},"later":true}`
		customer := tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": uuid.NewString()})
		var about struct{ ID string }
		customer.Data(t, &about)
		for _, dry := range []bool{false, true} {
			one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"customer_id": about.ID, "dryRun": dry}, "Prefer: wait=60"), http.StatusOK)
			require.Contains(t, string(one.Output), secret.diagnosis, "the caller reads its output")
			for _, read := range secret.ended(t, tenant, one.ExecutionID, shown) {
				require.JSONEq(t, string(read.Output), string(read.step("both").Output))
				require.JSONEq(t, maskedResult, string(read.step("caught").Output))
				require.JSONEq(t, maskedResult, string(read.step("l").Output))
				require.JSONEq(t, `[`+maskedResult+`]`, string(read.step("each").Output))
				require.JSONEq(t, `{"said":"calm"}`, string(read.step("s").Output))
			}
		}
		export := tenant.User.Do(http.MethodGet, "/v1/customers/"+about.ID+"/export", nil)
		require.Contains(t, string(export.Body), `"wrote"`)
		require.NotContains(t, string(export.Body), secret.diagnosis)

		// The version that ran counts, and not the one that is published now.
		trigger = publish(t, tenant, "Around one", `[{"id":"in","type":"map","map_id":"`+reads+`"}]`)
		one := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
		a := tenant.User.Do(http.MethodPut, "/v1/maps/"+reads+"?publish=true", json.RawMessage(`{"schema_version":"1","name":"Reads","steps":[{"id":"n","type":"transform","expr":{"diagnosis":"none"}}]}`))
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		secret.ended(t, tenant, one.ExecutionID, maskedResult)
		one = mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
		secret.ended(t, tenant, one.ExecutionID, `{"diagnosis":"none"}`)
		trigger = publish(t, tenant, "Compares", `[{"id":"in","type":"map","map_id":"`+reads+`","version":1},{"id":"same","type":"transform","expr":"${steps.in.output.diagnosis == trigger_data.it}"}]`)
		one = mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{"payload": map[string]any{"it": secret.diagnosis}}, "Prefer: wait=60"), http.StatusOK)
		require.Equal(t, "true", string(one.Output), "expressions read it as it is")
	})
}

// The words of an error may have any value in them. Its caller gets it as it is.
func TestErrorOfAMapIsShownMasked(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := newTenant(s), newCanaries()
		lockbox(t, tenant, secret)
		const card = "4242 4242 4242 4242"
		raise := `{"id":"no","type":"raise","error":{"code":"NO_WAY","title":"${trigger_data.token}","detail":"Card ${trigger_data.card}, password: ${trigger_data.password}."}`
		raises := publish(t, tenant, "Raises", `[`+raise+`}]`)
		around := publish(t, tenant, "Around a failure", `[
			`+strings.Replace(raise, `"no"`, `"caught"`, 1)+`,"catch":[{"errors":["*"],"steps":[]}]},
			{"id":"in","type":"map","map_id":"`+mapID(raises)+`","payload":"${trigger_data}"}]`)
		body := map[string]any{"payload": map[string]any{"token": secret.token, "card": card, "password": secret.password}}
		const detail = "Card ***4242, password: [masked]"
		for _, trigger := range []string{raises, around} {
			a := tenant.Runtime.Do(http.MethodPost, trigger, body, "Prefer: wait=60")
			failed := requireCode(t, a, http.StatusUnprocessableEntity, "MAP_FAILED")
			require.Contains(t, string(failed.Error.Details), "Card "+card+", password: "+secret.password, "the caller reads it")
			id := failed.Error.ExecutionID
			for _, reader := range []*rig.Client{tenant.User, tenant.Runtime} {
				read := secret.in(t, reader, "/v1/executions/"+id)
				require.Equal(t, shownError{"NO_WAY", "[masked]", detail}, *read.Error)
				for _, step := range read.Steps {
					require.Equal(t, *read.Error, *step.Error, step.ID)
				}
				var listed []struct {
					ExecutionID string `json:"execution_id"`
					Error       *shownError
				}
				reader.Do(http.MethodGet, "/v1/executions?kind=map&status=failed&map_id="+mapID(trigger), nil).Data(t, &listed)
				require.Len(t, listed, 1)
				require.Equal(t, id, listed[0].ExecutionID)
				require.Equal(t, read.Error, listed[0].Error, "a list shows it alike")
			}
			var told []struct{ Error shownError }
			rig.Until(t, arriveLimit, "the event is listed", func() bool {
				tenant.User.Do(http.MethodGet, "/v1/events?type=map.failed&execution_id="+id, nil).Data(t, &told)
				return len(told) == 1
			})
			require.Equal(t, "[masked]", told[0].Error.Title)
			for _, of := range []string{"/v1/executions/" + id, "/v1/audit", "/v1/events", "/v1/executions?kind=map"} {
				all := string(tenant.User.Do(http.MethodGet, of, nil).Body)
				for _, canary := range append(secret.all(), card) {
					require.NotContains(t, all, canary, of)
				}
			}
		}
	})
}

// A list reads many executions at once, so it leaves out what is long. It does not say that there is none.
func TestListOfMapsLeavesOutALongError(t *testing.T) {
	t.Parallel()
	tenant := newTenant(sharedDev().For(t))
	trigger := publish(t, tenant, "Says a lot", `[{"id":"no","type":"raise","error":{"code":"NO_WAY","detail":"${\"much \" * 4000}"}}]`)
	path := failed(t, tenant, trigger, map[string]any{})
	var listed []map[string]json.RawMessage
	tenant.User.Do(http.MethodGet, "/v1/executions?kind=map&map_id="+mapID(trigger), nil).Data(t, &listed)
	require.Len(t, listed, 1)
	require.NotContains(t, listed[0], "error")
	require.Equal(t, "NO_WAY", mapExecutionOf(t, tenant.User.Do(http.MethodGet, path, nil), http.StatusOK).Error.Code)
}

// What the editor of an input could not see stays as it was where they leave it out.
func TestEditOfARetryKeepsMaskedValuesThatItLeavesOut(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := newTenant(s), newCanaries()
		got := lockbox(t, tenant, secret)
		blockBoxOne(t, tenant)
		trigger := publish(t, tenant, "Fails with secrets", `[
			{"id":"all","type":"transform","expr":{"n":1,"password":"${trigger_data.password}","with":"${trigger_data.token}"}},
			{"id":"made","type":"verb","verb":"lockbox:set_box","args":{"id":"${trigger_data.id}","password":"${trigger_data.password}","locker":"${trigger_data.locker}","note":"${trigger_data.note}"}},
			{"id":"end","type":"transform","expr":{"n":"${steps.all.output.n}","password":"${steps.all.output.password}","same":"${steps.all.output.with == trigger_data.token}"}}]`)
		body := map[string]any{"session_id": uuid.NewString(), "payload": map[string]any{
			"id": "1", "password": secret.password, "locker": secret.locker, "note": secret.note, "token": secret.token,
		}}
		path := failed(t, tenant, trigger, body)
		var shown shownMap
		tenant.User.Do(http.MethodGet, path, nil).Data(t, &shown)
		require.JSONEq(t, maskedArgs, string(shown.step("made").Input))
		require.JSONEq(t, `{"n":1,"password":"[masked]","with":"[masked]"}`, string(shown.step("all").Input))
		retry := func(body any) rig.Answer {
			return tenant.User.Do(http.MethodPost, path+"/retry", body, "Prefer: wait=60")
		}
		refused := requireCode(t, retry(edits("made", map[string]any{"id": "2", "password": "[masked]", "note": "[masked]"})), http.StatusUnprocessableEntity, "INVALID_ARGS")
		require.Contains(t, string(refused.Error.Details), `"/edits/made/password"`)
		require.Contains(t, string(refused.Error.Details), `"/edits/made/note"`)

		done := mapExecutionOf(t, retry(map[string]any{"from_step": "all", "edits": map[string]any{
			"all": map[string]any{"n": 2}, "made": map[string]any{"id": "2", "note": "set again"},
		}}), http.StatusOK)
		require.Equal(t, "completed", done.Status, "%+v", done.Error)
		require.Len(t, got.all(), 1)
		require.JSONEq(t, `{"id":"2","password":"`+secret.password+`","locker":"`+secret.locker+`","note":"set again"}`, got.all()[0])
		require.JSONEq(t, `{"id":"2","password":"[masked]","locker":"[masked]","note":"[masked]"}`, string(secret.in(t, tenant.User, path).step("made").Input))
		repeat := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, body), http.StatusOK)
		require.JSONEq(t, `{"n":2,"password":"`+secret.password+`","same":true}`, string(repeat.Output))
		trail := tenant.User.Do(http.MethodGet, "/v1/audit?action=map.retried", nil)
		require.Contains(t, string(trail.Body), `"locker":"[masked]"`)
		for _, canary := range secret.all() {
			require.NotContains(t, string(trail.Body), canary)
		}
	})
}

// Iterations have values of their own. An edit keeps those of the iteration that it is for, and of no other.
func TestEditOfARetryKeepsMaskedValuesOfItsOwnIteration(t *testing.T) {
	t.Parallel()
	inBothLanes(t, func(t *testing.T, s *rig.Stack, _ string) {
		t.Helper()
		tenant, secret := newTenant(s), newCanaries()
		got := lockbox(t, tenant, secret)
		blockBoxOne(t, tenant)
		failing := func(mode string, items ...map[string]string) func(edit any) rig.Answer {
			trigger := publish(t, tenant, "Loops with secrets: "+mode, `[{"id":"each","type":"foreach","mode":"`+mode+`","items":"${trigger_data.items}","steps":[
				{"id":"made","type":"verb","verb":"lockbox:set_box","args":"${item}"}]}]`)
			path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"items": items}})
			return func(edit any) rig.Answer {
				return tenant.User.Do(http.MethodPost, path+"/retry", edits("made", edit), "Prefer: wait=60")
			}
		}
		retry := failing("seq", map[string]string{"id": "0", "note": "of the first"}, map[string]string{"id": "1", "note": "of the second"})
		done := mapExecutionOf(t, retry(map[string]any{"id": "2"}), http.StatusOK)
		require.Equal(t, "completed", done.Status, "%+v", done.Error)
		require.Len(t, got.all(), 2)
		require.JSONEq(t, `{"id":"2","note":"of the second"}`, got.all()[1])

		retry = failing("parallel", map[string]string{"id": "1", "note": "of the first"}, map[string]string{"id": "1", "note": "of the second"})
		refused := requireCode(t, retry(map[string]any{"id": "3"}), http.StatusUnprocessableEntity, "INVALID_ARGS")
		require.Contains(t, string(refused.Error.Details), `"rule":"masked"`)
		require.Contains(t, string(refused.Error.Details), `"/edits/made"`)
		require.Len(t, got.all(), 2)
		// A whole edit is for any of them. The other one is blocked again.
		require.Equal(t, "failed", mapExecutionOf(t, retry(map[string]any{"id": "3", "note": "set"}), http.StatusOK).Status)
	})
}

// Of more iterations than are looked at, nobody knows whether an edit leaves out what one has masked.
func TestEditOfARetryForTooManyIterationsIsRefused(t *testing.T) {
	t.Parallel()
	tenant := newTenant(sharedDev().For(t))
	retry := func(count int) rig.Answer {
		items := []any{map[string]any{"id": "first", "password": "of the first"}}
		for len(items) < count-2 {
			items = append(items, map[string]any{"id": "fits"})
		}
		items = append(items, map[string]any{"id": "last"}, map[string]any{"id": "last"})
		trigger := publish(t, tenant, fmt.Sprintf("Loops %d times", count), `[{"id":"each","type":"foreach","mode":"parallel","items":"${trigger_data.items}","steps":[
			{"id":"check","type":"validate","value":"${item}","schema":{"properties":{"id":{"enum":["first","fits"]}}}}]}]`)
		path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"items": items}})
		return tenant.User.Do(http.MethodPost, path+"/retry", edits("check", map[string]any{"id": "fits", "n": 1}), "Prefer: wait=60")
	}
	refused := requireCode(t, retry(250), http.StatusUnprocessableEntity, "INVALID_ARGS")
	require.Contains(t, string(refused.Error.Details), `"path":"/edits/check","rule":"masked"`)
	require.Contains(t, string(refused.Error.Details), "more than 100 iterations")
}

// Iterations are counted for each edited step.
func TestEditsOfARetryForFewIterationsEachAreTaken(t *testing.T) {
	t.Parallel()
	tenant := newTenant(sharedDev().For(t))
	items := []any{}
	for len(items) < 58 {
		items = append(items, map[string]any{"id": "fits"})
	}
	items = append(items, map[string]any{"id": "last"}, map[string]any{"id": "last"})
	trigger := publish(t, tenant, "Loops of two steps", `[{"id":"each","type":"foreach","mode":"parallel","items":"${trigger_data.items}","steps":[
		{"id":"seen","type":"validate","value":"${item}","schema":{"properties":{"id":{"enum":["fits","last"]}}}},
		{"id":"check","type":"validate","value":"${item}","schema":{"properties":{"id":{"enum":["fits"]}}}}]}]`)
	path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"items": items}})
	both := map[string]any{"from_step": "each", "edits": map[string]any{"seen": map[string]any{"id": "fits"}, "check": map[string]any{"id": "fits"}}}
	a := tenant.User.Do(http.MethodPost, path+"/retry", both, "Prefer: wait=60")
	mapExecutionOf(t, a, http.StatusOK)
}

// What the edited steps got is in memory together while the edits are judged.
func TestEditOfARetryOfTooLargeInputsIsRefused(t *testing.T) {
	t.Parallel()
	tenant := newTenant(sharedDev().For(t))
	var steps []string
	all, few := map[string]any{}, map[string]any{}
	for i := range 9 {
		id := fmt.Sprintf("step_%d", i)
		steps = append(steps, `{"id":"`+id+`","type":"transform","expr":{"n":`+strconv.Itoa(i)+`,"text":"${trigger_data.text}"}}`)
		if all[id] = "edited"; i < 4 {
			few[id] = "edited"
		}
	}
	steps = append(steps, `{"id":"check","type":"validate","value":"${steps.step_0.output}","schema":{"const":"edited"}}`)
	trigger := publish(t, tenant, "Has large steps", "["+strings.Join(steps, ",")+"]")
	path := failed(t, tenant, trigger, map[string]any{"payload": map[string]any{"text": strings.Repeat("x", 500_000)}})
	retry := func(edits map[string]any) rig.Answer {
		return tenant.User.Do(http.MethodPost, path+"/retry", map[string]any{"from_step": "step_0", "edits": edits}, "Prefer: wait=60")
	}
	refused := requireCode(t, retry(all), http.StatusUnprocessableEntity, "INVALID_ARGS")
	require.Contains(t, string(refused.Error.Details), `"path":"/edits","rule":"too_large"`)
	require.Equal(t, "completed", mapExecutionOf(t, retry(few), http.StatusOK).Status)
}

// blockBoxOne has a policy block the writes to one box.
func blockBoxOne(t *testing.T, tenant *rig.Tenant) {
	t.Helper()
	tenant.User.NewPolicy(t, map[string]any{
		"name": "closed", "verbMatchers": []any{map[string]any{"verb": "lockbox:set_box"}}, "action": map[string]any{"type": "block"},
		"conditions": []any{map[string]any{"field": "args.id", "operator": "equals", "value": "1"}},
	})
}

// shownMap is an execution of a Map with what its steps got and gave.
type shownMap struct {
	Output json.RawMessage
	Error  *shownError
	Steps  []shownStep
}

type shownStep struct {
	ID            string
	Input, Output json.RawMessage
	Error         *shownError
}

type shownError struct{ Code, Title, Detail string }

func (m shownMap) step(id string) (found shownStep) {
	for _, step := range m.Steps {
		if step.ID == id {
			found = step
		}
	}
	return found
}

// ended returns an execution as a user and a key see it. It has the output, as has the event of its end.
func (c canariesOfMap) ended(t *testing.T, tenant *rig.Tenant, id, output string) (reads []shownMap) {
	t.Helper()
	for _, reader := range []*rig.Client{tenant.User, tenant.Runtime} {
		read := c.in(t, reader, "/v1/executions/"+id)
		require.JSONEq(t, output, string(read.Output))
		reads = append(reads, read)
	}
	var told []struct{ Output json.RawMessage }
	// An event is listed when all transactions before its own have ended, those of others too.
	rig.Until(t, arriveLimit, "the event is listed", func() bool {
		tenant.User.Do(http.MethodGet, "/v1/events?type=map.completed&execution_id="+id, nil).Data(t, &told)
		return len(told) == 1
	})
	require.JSONEq(t, output, string(told[0].Output))
	return reads
}

// in returns an execution as the reader sees it. Nothing that the reader gets about it has a canary.
func (c canariesOfMap) in(t *testing.T, reader *rig.Client, path string) (read shownMap) {
	t.Helper()
	whole := reader.Do(http.MethodGet, path, nil)
	whole.Data(t, &read)
	texts := []string{string(whole.Body)}
	for _, part := range []string{"/changes", "/events", "/graph"} {
		a := reader.Do(http.MethodGet, path+part, nil)
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", part, a.Body)
		texts = append(texts, string(a.Body))
	}
	for _, m := range follow(t, reader, path+"/stream", "").until("end") {
		texts = append(texts, m.data)
	}
	require.Regexp(t, `"status":"(completed|failed)"`, strings.Join(texts[len(texts)-2:], ""))
	for _, text := range texts {
		for _, canary := range c.all() {
			require.NotContains(t, text, canary)
		}
	}
	return read
}
