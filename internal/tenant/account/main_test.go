package account

import (
	"testing"

	"agentruntime/internal/dev/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
