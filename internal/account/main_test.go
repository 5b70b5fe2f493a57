package account

import (
	"testing"

	"agentruntime/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
