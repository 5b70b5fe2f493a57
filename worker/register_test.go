package worker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/activities"
)

// names records what is registered.
type names struct {
	sdk.Registry

	activities []string
}

func (n *names) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	n.activities = append(n.activities, o.Name)
}

func (n *names) RegisterWorkflowWithOptions(any, workflow.RegisterOptions) {}

// A declared activity that no queue registers would fail at its first call.
func TestEveryDeclaredActivityIsRegistered(t *testing.T) {
	t.Parallel()
	var declared []string
	for _, name := range []string{"flow.go", "maps.go", "map_apply.go", "turn.go", "turn_other.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../internal/base/flow/"+name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		declared = append(declared, activitiesIn(t, file)...)
	}
	require.Greater(t, len(declared), 4)
	var n names
	for _, q := range queues() {
		q.register(&n, Deps{Action: &activities.Action{}, Delivery: &activities.Delivery{}, Customers: &activities.Customers{}, Maps: &activities.Maps{}, Turns: &activities.Turns{}})
	}
	// The calls of Maps and of agents go on by the same activities, on a queue each.
	slices.Sort(n.activities)
	require.ElementsMatch(t, declared, slices.Compact(n.activities))
}

// activitiesIn returns the names of the activities that the file declares.
func activitiesIn(t *testing.T, file *ast.File) (declared []string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.IndexListExpr); ok && kind.X.(*ast.Ident).Name == "Activity" {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			declared = append(declared, name)
		}
		return true
	})
	return declared
}
