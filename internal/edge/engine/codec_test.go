package engine_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/edge/engine"
)

func TestCodecMakesPayloadsUnreadable(t *testing.T) {
	t.Parallel()
	dc, err := engine.Converter("k1", bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	for name, v := range map[string]any{
		"struct":                 flow.Decision{ApprovalID: "canary"},
		"text":                   "canary",
		"text like a summary":    "sandbox:canary · low and more",
		"text with a secret end": "sandbox:pay · canary",
		"object with a summary":  map[string]string{"s": "canary:pay · low"},
		"bytes":                  []byte("canary"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := dc.ToPayload(v)
			require.NoError(t, err)
			require.NotContains(t, string(p.GetData()), "canary")
			again, err := dc.ToPayload(v)
			require.NoError(t, err)
			require.NotEqual(t, p.GetData(), again.GetData(), "equal inputs must not look equal")
		})
	}
}

func TestCodecLeavesTheSummaryReadable(t *testing.T) {
	t.Parallel()
	dc, err := engine.Converter("k1", bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	for _, summary := range append(flow.Summaries(),
		flow.Listing{Verb: "sandbox:create_refund", Risk: "high"}.Summary(), flow.HoldSummary("appr_01a1ffa9-5306-7d20-b393-62e994a7d6d4"),
		flow.Listing{Kind: flow.KindDelivery, Event: "action.outcome_unknown"}.Summary(), flow.Listing{Kind: flow.KindDelivery, Event: "custom.*"}.Summary(),
	) {
		p, err := dc.ToPayload(summary)
		require.NoError(t, err)
		require.Equal(t, `"`+summary+`"`, string(p.GetData()))
		var back string
		require.NoError(t, dc.FromPayload(p, &back))
		require.Equal(t, summary, back)
	}
	for _, text := range []string{flow.HoldSummary("appr_of somebody"), flow.Listing{Kind: flow.KindDelivery, Event: "custom.for somebody"}.Summary()} {
		p, err := dc.ToPayload(text)
		require.NoError(t, err)
		require.NotContains(t, string(p.GetData()), "somebody")
	}
}

func TestCodecRefusesATamperedPayload(t *testing.T) {
	t.Parallel()
	dc, err := engine.Converter("k1", bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	for name, spoil := range map[string]func(*commonpb.Payload){
		"flipped byte": func(p *commonpb.Payload) { p.Data[len(p.Data)-1] ^= 1 },
		"cut short":    func(p *commonpb.Payload) { p.Data = p.Data[:5] },
		"other key id": func(p *commonpb.Payload) { p.Metadata["encryption-key-id"] = []byte("k2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := dc.ToPayload(flow.Decision{ApprovalID: "t"})
			require.NoError(t, err)
			spoil(p)
			var out flow.Decision
			require.Error(t, dc.FromPayload(p, &out))
		})
	}
}
