package api

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/action/governance"
	"agentruntime/internal/action/policy"
	"agentruntime/internal/agents/tooldef"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/internal/record/chain"
	"agentruntime/internal/tenant/auth"
)

// object is a JSON object of the document.
type object = map[string]any

// contract is the document as the service serves it.
func contract(t *testing.T) object {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapiJSON))
	require.NoError(t, err)
	return doc.(object)
}

// at returns the value at a path of names.
func at(t *testing.T, node any, path ...string) any {
	t.Helper()
	for _, name := range path {
		next, ok := node.(object)[name]
		require.True(t, ok, "%v: no %s", path, name)
		node = next
	}
	return node
}

// resolve follows a reference within the document.
func resolve(t *testing.T, doc object, node any) object {
	t.Helper()
	ref, is := node.(object)["$ref"].(string)
	if !is {
		return node.(object)
	}
	return resolve(t, doc, at(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
}

// asObject returns an object of the document, nil for what is absent.
func asObject(node any) object {
	o, _ := node.(object)
	return o
}

// eachOperation calls f for every operation, in order.
func eachOperation(t *testing.T, doc object, f func(method, path string, op object)) {
	t.Helper()
	paths := at(t, doc, "paths").(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(object)
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			if op, has := item[method].(object); has {
				f(strings.ToUpper(method), path, op)
			}
		}
	}
}

func TestDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(openapiJSON)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
}

// table returns the route table and the two health routes.
func table() []route {
	s := &Server{}
	return append(s.routes(), route{method: http.MethodGet, path: "/healthz"}, route{method: http.MethodGet, path: "/readyz"})
}

func TestDocumentListsExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	var served, documented []string
	for _, rt := range table() {
		served = append(served, rt.method+" "+rt.path)
	}
	eachOperation(t, contract(t), func(method, path string, _ object) { documented = append(documented, method+" "+path) })
	require.ElementsMatch(t, served, documented)
}

func TestDocumentNamesCredentialOfEachRoute(t *testing.T) {
	t.Parallel()
	routes := map[string]route{}
	for _, rt := range table() {
		routes[rt.method+" "+rt.path] = rt
	}
	eachOperation(t, contract(t), func(method, path string, op object) {
		rt := routes[method+" "+path]
		perms := []any{}
		if rt.permission != "" {
			perms = append(perms, rt.permission)
		}
		roles := []any{} // all
		if len(rt.roles) < len(actor.Roles()) {
			for _, r := range rt.roles {
				roles = append(roles, string(r))
			}
		}
		key, user := object{"ApiKey": perms}, object{"Jwt": roles}
		want := map[takes][]any{takesNothing: {}, takesKey: {key}, takesUser: {user}, takesKeyOrJWT: {key, user}, takesServerKeyOrJWT: {key, user}, takesTrigger: {key, user}}[rt.takes]
		require.Equal(t, want, op["security"], "%s %s", method, path)

		responses := op["responses"].(object)
		// The right password of a user who must verify their address first is refused so, too.
		// So is a person whom the installation does not take.
		unverified := slices.ContainsFunc([]string{"NotVerified", "SignupClosed", "JoinForbidden"}, func(name string) bool {
			return maps.Equal(object{"$ref": "#/components/responses/" + name}, asObject(responses["403"]))
		})
		require.Equal(t, rt.takes != takesNothing, responses["403"] != nil && !unverified, "%s %s: 403", method, path)
		if rt.takes != takesNothing {
			require.NotNil(t, responses["401"], "%s %s", method, path)
		}
		// A route with a body refuses what is too large or of another type.
		for _, status := range []string{"413", "415"} {
			require.Equal(t, rt.body > 0, responses[status] != nil, "%s %s: %s", method, path, status)
		}
		require.Equal(t, rt.body > 0, op["requestBody"] != nil, "%s %s: body", method, path)
		require.NotEmpty(t, op["operationId"], "%s %s", method, path)
		require.NotEmpty(t, op["summary"], "%s %s", method, path)
	})
}

func TestDocumentErrorCodesMatchTable(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	status := map[string]int{}
	var known []any
	for _, row := range fault.Table() {
		known = append(known, string(row.Code))
		status[string(row.Code)] = row.Status
	}
	require.Equal(t, known, at(t, doc, "components", "schemas", "ErrorCode", "enum"))

	codes := func(response object) []any {
		schema := at(t, response, "content", "application/json", "schema").(object)
		all, _ := schema["allOf"].([]any)
		require.Len(t, all, 2)
		require.Equal(t, object{"$ref": "#/components/schemas/Failure"}, all[0])
		return at(t, all[1], "properties", "error", "properties", "code", "enum").([]any)
	}
	eachOperation(t, doc, func(method, path string, op object) {
		for number, response := range op["responses"].(object) {
			response := resolve(t, doc, response)
			require.Contains(t, response["headers"], "X-Request-Id", "%s %s %s", method, path, number)
			if number[0] < '4' {
				continue
			}
			for _, code := range codes(response) {
				require.Equal(t, number, strconv.Itoa(status[code.(string)]), "%s %s: %s", method, path, code)
			}
		}
	})
	// The two responses of any path.
	for name, code := range map[string]fault.Code{"NotFound": fault.CodeNotFound, "MethodNotAllowed": fault.CodeMethodNotAllowed} {
		require.Equal(t, []any{string(code)}, codes(at(t, doc, "components", "responses", name).(object)))
	}
}

func TestDocumentPermissionsMatchKeys(t *testing.T) {
	t.Parallel()
	var want []any
	for _, p := range auth.Permissions() {
		want = append(want, p)
	}
	require.Equal(t, want, at(t, contract(t), "components", "schemas", "Permission", "enum"))
}

// pointer returns the address of a place in the document.
func pointer(path ...string) string {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(p)
	}
	return "openapi.json#/" + strings.Join(escaped, "/")
}

func TestDocumentExamplesFitSchemas(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("openapi.json", doc))
	checked := 0
	check := func(media any, path ...string) {
		examples, _ := media.(object)["examples"].(object)
		for name, example := range examples {
			schema, err := compiler.Compile(pointer(append(path, "schema")...))
			require.NoError(t, err)
			require.NoError(t, schema.Validate(example.(object)["value"]), "%v %s", path, name)
			checked++
		}
	}
	eachOperation(t, doc, func(method, path string, op object) {
		where := []string{"paths", path, strings.ToLower(method)}
		if body, has := op["requestBody"].(object); has && body["$ref"] == nil {
			check(at(t, body, "content", "application/json"), append(where, "requestBody", "content", "application/json")...)
		}
		for number, response := range op["responses"].(object) {
			if _, shared := response.(object)["$ref"]; !shared && !isFile(response.(object)) {
				check(at(t, response, "content", "application/json"), append(where, "responses", number, "content", "application/json")...)
			}
		}
	})
	for name, body := range at(t, doc, "components", "requestBodies").(object) {
		check(at(t, body, "content", "application/json"), "components", "requestBodies", name, "content", "application/json")
	}
	for name, response := range at(t, doc, "components", "responses").(object) {
		if name == "NotModified" {
			continue // it has no body
		}
		check(at(t, response, "content", "application/json"), "components", "responses", name, "content", "application/json")
	}
	require.Greater(t, checked, 20)
}

// shapes returns the Go type behind each schema. Of request types (in) the fields are
// compared; of response types (out) also which of them are always present.
func shapes() (in, out map[string]any) {
	in = map[string]any{
		"RunRequest": runBody{}, "EvaluateRequest": evaluateBody{}, "ResolveRequest": resolveBody{}, "ImportRequest": importBody{},
		"CredentialCreateRequest": credentialBody{}, "CredentialPatchRequest": credentialPatch{}, "CredentialRotateRequest": rotation{},
		"ApiKeyCreateRequest": keyBody{}, "ApiKeyPatchRequest": keyPatch{}, "ApiKeyRotateRequest": keyRotation{}, "ChangePasswordRequest": passwordBody{}, "SignupRequest": signupBody{}, "LoginRequest": loginBody{}, "RefreshRequest": refreshBody{},
		"UserInviteRequest": inviteBody{}, "UserPatchRequest": userPatch{}, "AcceptInvitationRequest": acceptBody{},
		"PolicyRequest": policyBody{}, "VerbMatcherRequest": matcherBody{}, "PolicyNarrowingRequest": narrowingBody{}, "PolicyConditionEntry": conditionBody{}, "PolicyActionObject": actionBody{},
		"ApproveRequest": approveBody{}, "RejectRequest": rejectBody{}, "ApprovalBatchRequest": batchBody{}, "ApprovalBatchItem": batchItem{},
		"EventSendRequest":  eventBody{},
		"GrantRequest":      grantBody{},
		"GrantPatchRequest": grantPatch{}, "PolicyPatchRequest": policyPatch{},
		"PolicyApprovalRequest": approvalRule{}, "PolicyApprover": governance.Approver{}, "Masking": maskingBody{}, "MaskPath": policy.MaskPath{},
		"MapPublishRequest": publishBody{},
		"SimulateRequest":   simulateBody{}, "PolicyCandidate": candidateBody{},
	}
	out = map[string]any{
		"RunResult": runData{}, "Evaluation": evaluation{}, "Verb": verbView{}, "OpenAITool": tooldef.OpenAITool{}, "AnthropicTool": tooldef.AnthropicTool{}, "GeminiTool": tooldef.GeminiTool{}, "MCPTool": tooldef.MCPTool{}, "Catalog": verbList{}, "ProviderVerb": providerVerb{}, "ProviderVerbs": providerVerbs{},
		"OffsetPagination": offsetPosition{}, "Pagination": wire.Pagination{}, "Execution": execution{},
		"Approval": approvalView{}, "ApprovalDetail": approvalDetail{}, "ApprovalDecision": decisionView{}, "ApprovalRequirement": governance.Requirement{},
		"ApprovalCounts": approvalCounts{}, "ApprovalBatch": batchView{}, "ApprovalBatchResult": batchResult{}, "ApprovalBatchProblem": batchError{},
		"EvaluationDetails": evaluationWhy{}, "PolicyMatch": governance.Match{}, "ConditionMatch": governance.ConditionMatch{}, "Grant": grantView{},
		"Provider": providerView{}, "ProviderReport": importedView{}, "ProviderDetail": providerShown{}, "Circuit": circuitView{}, "Credential": credentialView{}, "CredentialValidation": validation{},
		"ApiKey": keyView{}, "Me": meView{}, "MeTenant": tenantView{}, "MeApiKey": ownKeyView{}, "MeUser": meUser{}, "LoginSession": sessionView{}, "SignedUp": signupView{}, "Session": loginView{}, "User": loginUser{}, "TenantUser": userView{}, "InvitedUser": invitedView{}, "Error": wire.ErrorBody{}, "ErrorDetail": fault.Detail{},
		"EventType": eventTypeView{}, "AuditRecord": auditRecord{}, "AuditReport": auditReport{}, "AuditHead": auditHead{}, "AuditProblem": auditProblem{}, "AuditKey": chain.Key{}, "AuditKeys": auditKeys{},
		"PolicyState": policyState{}, "Policy": policyView{}, "PolicyDetail": policyDetail{}, "PolicyVersion": policyVersion{}, "PolicyWarning": policy.Warning{},
		"VerbMatcher": governance.Matcher{}, "PolicyNarrowing": narrowing{}, "PolicyConditionEntry": governance.Condition{}, "PolicyApproval": governance.ApprovalRule{}, "Masking": maskingBody{},
		"MapSummary": mapView{}, "Map": mapDetail{}, "MapVersionSummary": mapVersionView{}, "MapVersion": mapVersionDetail{}, "MapReport": mapReport{}, "MapFault": mapdef.Fault{},
		"Simulation": simulation{}, "Period": period{}, "SimulatedChanges": newly{}, "SimulatedChange": changed{}, "SimulatedRun": changedRun{},
		"PolicyCoverage": coverage{}, "DecisionCounts": decisionCounts{}, "VersionCoverage": versionCoverage{}, "DayCoverage": dayCoverage{},
	}
	return in, out
}

// fields returns the JSON names of a struct, and which of them are always written.
func fields(t reflect.Type) (all, always []string) {
	for f := range t.Fields() {
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous {
			inner, innerAlways := fields(f.Type)
			all, always = append(all, inner...), append(always, innerAlways...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if !strings.Contains(options, "omitempty") {
			always = append(always, name)
		}
	}
	return all, always
}

func TestDocumentSchemasMatchGoTypes(t *testing.T) {
	t.Parallel()
	schemas := at(t, contract(t), "components", "schemas").(object)
	in, out := shapes()
	for name, value := range in {
		all, _ := fields(reflect.TypeOf(value))
		known, _ := shapeOf(t, schemas, name)
		require.ElementsMatch(t, all, known, name)
	}
	for name, value := range out {
		all, always := fields(reflect.TypeOf(value))
		known, required := shapeOf(t, schemas, name)
		require.ElementsMatch(t, all, known, name)
		require.ElementsMatch(t, always, required, name)
		if schema := schemas[name].(object); schema["anyOf"] == nil { // its alternatives have a row of their own
			require.Equal(t, false, schema["additionalProperties"], name)
		}
	}
}

// shapeOf returns the members of a schema, and which are required. Of one with alternatives it
// returns the members of them all, and none as required.
func shapeOf(t *testing.T, schemas object, name string) (known, required []string) {
	t.Helper()
	schema := schemas[name].(object)
	if others, several := schema["anyOf"].([]any); several {
		for _, other := range others {
			_, part, _ := strings.Cut(other.(object)["$ref"].(string), "schemas/")
			more, _ := shapeOf(t, schemas, part)
			known = append(known, more...)
		}
		return known, nil
	}
	list, _ := schema["required"].([]any)
	for _, r := range list {
		required = append(required, r.(string))
	}
	return slices.Collect(maps.Keys(at(t, schema, "properties").(object))), required
}

// isFile reports whether a response is a file, which has a name, or a stream. Neither has an
// envelope.
func isFile(response object) bool {
	if content, _ := response["content"].(object); content["text/event-stream"] != nil {
		return true
	}
	headers, _ := response["headers"].(object)
	return headers["Content-Disposition"] != nil
}

func TestDocumentEnvelopesAreClosed(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	eachOperation(t, doc, func(method, path string, op object) {
		for number, response := range op["responses"].(object) {
			if number[0] >= '3' {
				continue // 304 has no body; all others are Failure, which other tests check
			}
			if isFile(resolve(t, doc, response)) {
				continue // it has no envelope
			}
			schema := resolve(t, doc, at(t, resolve(t, doc, response), "content", "application/json", "schema"))
			where := fmt.Sprintf("%s %s %s", method, path, number)
			require.Equal(t, false, schema["additionalProperties"], where)
			require.Equal(t, object{"const": true}, at(t, schema, "properties", "success"), where)
			data := resolve(t, doc, at(t, schema, "properties", "data"))
			if items, list := data["items"]; list {
				data = resolve(t, doc, items)
			}
			kinds, several := data["oneOf"].([]any) // an execution is one of a verb or of a Map
			if !several {
				kinds = []any{data}
			}
			for _, kind := range kinds {
				// The members of an event depend on its type.
				require.Equal(t, strings.HasPrefix(path, "/v1/events") || strings.HasSuffix(path, "/events"), resolve(t, doc, kind)["additionalProperties"], where)
			}
		}
	})
}
