package auth_test

import (
	"testing"

	"agentruntime/internal/dev/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
