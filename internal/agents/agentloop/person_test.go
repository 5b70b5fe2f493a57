package agentloop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/agentloop"
)

func TestWishForAPersonIsFound(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"Can I speak to a human?":                       true,
		"let me TALK WITH someone please":               true,
		"I want to talk to your manager":                true,
		"I need a real person":                          true,
		"Ich möchte mit einem Menschen sprechen":        true,
		"Kann ich mit jemandem reden?":                  true,
		"Je veux parler à un conseiller":                true,
		"Quiero hablar con una persona":                 true,
		"Where is my order?":                            false,
		"Tell the person at the door that it is late":   false,
		"Send it to my manager":                         false,
		"What does the agent of the shop cost a month?": false,
		"": false,
	} {
		require.Equal(t, want, agentloop.WantsPerson(message), message)
	}
}
