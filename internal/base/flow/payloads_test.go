package flow_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/flow"
	"agentruntime/internal/maps/stepmachine"
)

// payloads are the types of all that workflows, steps, updates and signals take and return.
func payloads() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[flow.ActionRunInput](), reflect.TypeFor[flow.RunRef](), reflect.TypeFor[flow.HandOver](), reflect.TypeFor[flow.Step](),
		reflect.TypeFor[flow.Decision](), reflect.TypeFor[flow.DecisionInput](), reflect.TypeFor[flow.Decided](), reflect.TypeFor[flow.RunResult](),
		reflect.TypeFor[flow.DeliveryInput](), reflect.TypeFor[flow.DeliveryRef](), reflect.TypeFor[flow.DeliveryResult](),
		reflect.TypeFor[flow.CustomerRef](), reflect.TypeFor[flow.EraseStep](),
		reflect.TypeFor[flow.MapInput](), reflect.TypeFor[flow.MapRef](), reflect.TypeFor[flow.MapCarried](), reflect.TypeFor[flow.MapBegun](),
		reflect.TypeFor[flow.MapCallEnd](), reflect.TypeFor[flow.MapEvaluated](), reflect.TypeFor[flow.MapNews](), reflect.TypeFor[flow.MapResult](), reflect.TypeFor[flow.MapOfMap](),
		reflect.TypeFor[flow.MapAsked](), reflect.TypeFor[flow.MapDecision](), reflect.TypeFor[flow.MapUndoing](),
		reflect.TypeFor[flow.MapModelCall](), reflect.TypeFor[flow.MapModelTurn](), reflect.TypeFor[flow.MapToolEnd](),
		reflect.TypeFor[flow.ApplyRef](), reflect.TypeFor[flow.ApplyStep](), reflect.TypeFor[flow.ApplyResult](),
		reflect.TypeFor[flow.TurnInput](), reflect.TypeFor[flow.TurnRef](), reflect.TypeFor[flow.TurnStep](), reflect.TypeFor[flow.TurnLate](),
		reflect.TypeFor[flow.TurnNext](), reflect.TypeFor[flow.TurnTool](), reflect.TypeFor[flow.TurnNews](), reflect.TypeFor[flow.TurnResult](), reflect.TypeFor[flow.TurnOther](),
		reflect.TypeFor[flow.Private](),
	}
}

// localInputs are the inputs of local activities of Maps. No history has the input of a local
// activity.
func localInputs() []string {
	return []string{"MapWrites", "MapShow", "MapCall", "MapCallRef", "MapEvaluation", "MapLook", "MapAsk", "MapAskEnd", "MapFinish", "MapSignals", "MapStart", "MapOfMapRef", "MapTool", "ApplyCall", "TurnCall", "TurnEnd", "TurnOtherRef"}
}

// texts are the members that are free texts, and what makes sure that they have neither
// arguments nor secrets.
func texts() map[string]string {
	return map[string]string{
		"Step.ApprovalID":       "an id that the service makes",
		"Decision.ApprovalID":   "an id that the service makes",
		"Decided.Why":           "words of the service with an id that it makes; no workflow sets it",
		"HandOver.Parent":       "the id of a workflow, which is hashed where a caller had a part in it",
		"ActionRunInput.Parent": "as HandOver.Parent",
		"Step.Details":          "HoldDetails, of ids and words of the catalog",
		"ApplyStep.Change":      "an id that the service makes",
		"ApplyStep.Verb":        "a word of the catalog",
		"TurnInput.Parent":      "as HandOver.Parent",
		"TurnTool.Kind":         "the kind of an execution",
		"TurnTool.Verb":         "a word of the catalog",
		"TurnInput.Asks":        "the name of a model, from the agent's definition",
		"TurnTool.Lane":         "the slug of a provider",
	}
}

// What operators can decode has ids, states, codes, numbers and times. A new member of
// another type, or a new text, fails here and needs a reason.
func TestPayloadsHaveOnlyIDsAndStates(t *testing.T) {
	t.Parallel()
	harmless := []reflect.Type{
		reflect.TypeFor[uuid.UUID](), reflect.TypeFor[flow.State](), reflect.TypeFor[flow.DeliveryState](), reflect.TypeFor[fault.Code](), reflect.TypeFor[time.Duration](),
		reflect.TypeFor[bool](), reflect.TypeFor[int32](), reflect.TypeFor[stepmachine.Status](), reflect.TypeFor[*flow.MapCarried](), reflect.TypeFor[*flow.TurnStep](),
	}
	found := map[string]string{}
	for _, payload := range payloads() {
		if _, private := payload.FieldByName("Private"); private {
			continue // the codec endpoint does not show it
		}
		for f := range payload.Fields() {
			name := payload.Name() + "." + f.Name
			switch {
			case slices.Contains(harmless, f.Type), slices.Contains(payloads(), f.Type):
			case f.Type.Kind() == reflect.String:
				found[name] = texts()[name]
				require.NotEmpty(t, texts()[name], "%s is a text: why has it neither arguments nor secrets?", name)
			default:
				t.Errorf("%s is of the type %s, which may have anything in it", name, f.Type)
			}
		}
	}
	require.Equal(t, texts(), found)
}

// The list of payloads is complete: it has every type of the contract that steps name, and
// every struct that is written as JSON.
func TestPayloadsAreAllTypesOfTheContract(t *testing.T) {
	t.Parallel()
	var want []string
	for _, payload := range payloads() {
		want = append(want, payload.Name())
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, file := range files {
		// The crash rig has workflows of its own, which no product contains.
		if strings.HasSuffix(file, "_test.go") || file == "for_tests.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, is := n.Type.(*ast.StructType); is && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return f.Tag != nil }) {
					named[n.Name.Name] = true
				}
			case *ast.IndexListExpr:
				for _, in := range n.Indices {
					if id, is := in.(*ast.Ident); is && len(id.Name) > 1 {
						named[id.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, input := range localInputs() {
		delete(named, input)
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(named)))
}
