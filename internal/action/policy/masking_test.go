package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/policy"
	"agentruntime/internal/base/verb"
)

// A mask of metadata hides the same value where an agent or a Map makes the call. There it is within what
// the caller has written.
func TestMaskOfMetadataCoversTheWordsOfCallers(t *testing.T) {
	t.Parallel()
	masks := policy.Masks{{Verb: "shop:*", Path: "metadata.card.note"}, {Verb: "shop:*", Path: "args.card"}, {Verb: "bank:*", Path: "metadata.iban"}}
	name := verb.Name{Provider: "shop", Verb: "create_order"}
	require.Equal(t, [][]string{{"card", "note"}, {"message", "card", "note"}}, masks.Paths(policy.PartMetadata, name))
	require.Equal(t, [][]string{{"card"}}, masks.Paths(policy.PartArgs, name))
	require.Empty(t, masks.Paths(policy.PartResult, name))
}
