package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
)

func names() []string {
	var list []string
	for _, name := range flow.SearchAttributes() {
		list = append(list, string(name))
	}
	return list
}

// listing has every value.
func listing() flow.Listing {
	return flow.Listing{
		Kind: flow.KindAction, Tenant: uuid.UUID{1}, Verb: "shop:pay", Risk: "high", Execution: "order-1", Subject: "agent-1", Details: "where it is",
	}
}

func start(t *testing.T, e *engine.Engine) {
	t.Helper()
	in := flow.ActionRunInput{RunRef: flow.RunRef{TenantID: uuid.UUID{1}, RunID: uuid.UUID{2}, Attempt: 1}}
	require.NoError(t, e.StartRun(t.Context(), in, "run:1", listing()))
}

// lastStart returns the search attributes of the last start, and whether its workflow may
// set its state.
func (s *server) lastStart(t *testing.T) (values map[string]string, showsState bool) {
	t.Helper()
	dc, err := engine.Converter("k1", make([]byte, 32))
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	req := s.starts[len(s.starts)-1]
	var in flow.ActionRunInput
	require.NoError(t, dc.FromPayloads(req.Input, &in))
	values = map[string]string{}
	for name, p := range req.GetSearchAttributes().GetIndexedFields() {
		require.Equal(t, "Keyword", string(p.Metadata["type"]))
		values[name] = string(p.Data)
	}
	return values, in.ShowsState
}

// Where the store of the lists is Postgres, it has ten columns for Keywords.
func TestSearchAttributesLeaveRoomInPostgres(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, len(names()), 8)
	for _, name := range names() {
		require.Regexp(t, `^AgentRuntime[A-Z][a-z]+$`, name)
	}
}

func TestRegisterTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set("AgentRuntimeVerb", enumspb.INDEXED_VALUE_TYPE_KEYWORD)
	s.set("TheirOwn", enumspb.INDEXED_VALUE_TYPE_INT)
	added, err := engine.Register(t.Context(), s.addr, "default")
	require.NoError(t, err)
	require.Len(t, added, len(names())-1)
	require.NotContains(t, added, "AgentRuntimeVerb")
	for _, name := range names() {
		require.Equal(t, enumspb.INDEXED_VALUE_TYPE_KEYWORD, s.attributes[name])
	}
	added, err = engine.Register(t.Context(), s.addr, "default")
	require.NoError(t, err)
	require.Empty(t, added)
}

func TestRegisterRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *server)
		want  string
	}{
		"no right to list":  {func(s *server) { s.hides = serviceerror.NewPermissionDenied("Request unauthorized.", "") }, "list the search attributes: Request unauthorized."},
		"no right to add":   {func(s *server) { s.refuses = serviceerror.NewPermissionDenied("Request unauthorized.", "") }, "register the search attributes: Request unauthorized."},
		"no room":           {func(s *server) { s.refuses = serviceerror.NewInvalidArgument("cannot have more than 10") }, "register the search attributes: cannot have more than 10"},
		"one of other type": {func(s *server) { s.set("AgentRuntimeRisk", enumspb.INDEXED_VALUE_TYPE_TEXT) }, "another type than Keyword, remove them first: AgentRuntimeRisk"},
		"nobody is there":   {func(s *server) { s.addr = "127.0.0.1:1" }, "Temporal does not answer at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			c.spoil(s)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := engine.Register(ctx, s.addr, "default")
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Two processes may migrate at once.
func TestRegisterBesideAnotherProcessSucceeds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.refuses = serviceerror.NewAlreadyExists("they are there")
	s.before = func() {
		for _, name := range names() {
			s.attributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
	}
	_, err := engine.Register(t.Context(), s.addr, "default")
	require.NoError(t, err)
}

func TestStartSetsWhatIsRegistered(t *testing.T) {
	t.Parallel()
	for _, lane := range []engine.Lane{engine.LaneEager, engine.LaneSplit} {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			e := s.dial(t, lane)
			require.Len(t, e.Warnings(), 1, "no look was made yet")
			start(t, e)
			values, shows := s.lastStart(t)
			require.Empty(t, values)
			require.False(t, shows)

			s.set("AgentRuntimeVerb", enumspb.INDEXED_VALUE_TYPE_KEYWORD)
			s.set("AgentRuntimeRisk", enumspb.INDEXED_VALUE_TYPE_TEXT)
			require.NoError(t, e.Look(t.Context()))
			start(t, e)
			values, shows = s.lastStart(t)
			require.Equal(t, map[string]string{"AgentRuntimeVerb": `"shop:pay"`}, values)
			require.False(t, shows)
			require.Len(t, e.Warnings(), 1)
			require.Contains(t, e.Warnings()[0], "AgentRuntimeRisk")
			require.NotContains(t, e.Warnings()[0], "AgentRuntimeVerb")

			s.set("AgentRuntimeRisk", enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED)
			_, err := engine.Register(t.Context(), s.addr, "default")
			require.NoError(t, err)
			require.NoError(t, e.Look(t.Context()))
			require.Empty(t, e.Warnings())
			start(t, e)
			values, shows = s.lastStart(t)
			require.Equal(t, map[string]string{
				"AgentRuntimeTenant": `"01000000-0000-0000-0000-000000000000"`, "AgentRuntimeKind": `"action"`, "AgentRuntimeVerb": `"shop:pay"`,
				"AgentRuntimeRisk": `"high"`, "AgentRuntimeExecution": `"order-1"`, "AgentRuntimeSubject": `"agent-1"`,
			}, values)
			require.True(t, shows)
		})
	}
}

// An operator may remove an attribute while processes run. No start fails because of that.
func TestStartAfterAnAttributeIsGoneSucceeds(t *testing.T) {
	t.Parallel()
	for _, lane := range []engine.Lane{engine.LaneEager, engine.LaneSplit} {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			_, err := engine.Register(t.Context(), s.addr, "default")
			require.NoError(t, err)
			e := s.dial(t, lane)
			require.NoError(t, e.Ready(t.Context()), "a process that is ready has looked")
			require.Empty(t, e.Warnings())

			s.set("AgentRuntimeRisk", enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED)
			start(t, e)
			values, shows := s.lastStart(t)
			require.Empty(t, values)
			require.False(t, shows)
			require.NotEmpty(t, e.Warnings())
		})
	}
}

// A process that may not list the attributes works, and says so.
func TestReadyWithoutTheRightToListWarns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.hides = serviceerror.NewPermissionDenied("Request unauthorized.", "")
	e := s.dial(t, engine.LaneEager)
	require.NoError(t, e.Ready(t.Context()))
	require.Len(t, e.Warnings(), 1)
	start(t, e)
}
