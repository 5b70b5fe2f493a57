package account

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
)

func TestUnknownAddressIsLikeAWrongPassword(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.work.work()

	_, wrong := h.logIn(t, "ada@example.com", "wrong horse")
	require.Equal(t, [2]int64{0, 1}, h.work.work())
	for _, email := range []string{"bob@example.com", "not an address", "ädä@example.com"} {
		_, unknown := h.logIn(t, email, "wrong horse")
		require.Equal(t, [2]int64{0, 1}, h.work.work(), "the same work")
		require.Equal(t, wrong, unknown, "the same answer")
	}
	requireCode(t, fault.CodeInvalidCredentials, wrong)
	require.Equal(t, int64(9), one[int64](t, h, "select count(*) from login_attempts"), "each is counted for the pair and the account, all for the source")
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, in := range []LoginInput{
		{Password: password},
		{Email: "a@example.com"},
		{Email: strings.Repeat("a", 255), Password: password},
		{Email: "a@example.com", Password: strings.Repeat("a", 1025)},
	} {
		_, err := h.LogIn(t.Context(), from(home), in)
		requireCode(t, fault.CodeValidation, err)
	}
}

func TestLoginThrottleHoldsInABurst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.signUp(t, "ada@example.com", password)
	h.work.work()
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, _ = h.LogIn(t.Context(), from(home), LoginInput{Email: "ada@example.com", Password: "wrong horse"})
		})
	}
	wg.Wait()
	tried := h.work.work()[1]
	require.GreaterOrEqual(t, tried, int64(10))
	require.LessOrEqual(t, tried, int64(11), "the limit, and one more slot")
}

func TestEndedWindowsAreCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 5 {
		_, err := h.logIn(t, string(rune('a'+i))+"@example.com", "wrong horse")
		requireCode(t, fault.CodeInvalidCredentials, err)
	}
	require.Equal(t, int64(11), one[int64](t, h, "select count(*) from login_attempts"))
	h.pass(15 * time.Minute)
	_, err := h.logIn(t, "a@example.com", "wrong horse")
	requireCode(t, fault.CodeInvalidCredentials, err)
	require.Equal(t, int64(3), one[int64](t, h, "select count(*) from login_attempts"))
	require.Equal(t, int64(1), one[int64](t, h, "select max(failures)::bigint from login_attempts"), "new windows")
}
