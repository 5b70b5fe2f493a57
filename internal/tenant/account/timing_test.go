package account

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// pairs is how many known and unknown addresses are compared. Under equal distributions the
// likelihood that one call takes longer than another is 1/2, with a standard error of 0.024 over so
// many pairs. apart is six of them, so the test fails by chance about never. Where
// a request for an unknown address writes nothing, it was 0.96, with one record less 0.64. One read
// more moves it to 0.56 only. What else the machine does may move it once, but not in every round.
const (
	pairs  = 300
	apart  = 0.1
	rounds = 4
)

// likelihood returns how likely a is the longer one of a random a and b: the Mann-Whitney U
// statistic of the two, divided by the number of pairs.
func likelihood(a, b []time.Duration) float64 {
	b = slices.Sorted(slices.Values(b))
	longer := 0.0
	for _, x := range a {
		below, found := slices.BinarySearch(b, x)
		longer += float64(below)
		if found {
			longer += 0.5
		}
	}
	return longer / float64(len(a)*len(b))
}

func TestLikelihoodComparesRanks(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, likelihood([]time.Duration{3, 4}, []time.Duration{1, 2}), 0)
	require.InDelta(t, 0, likelihood([]time.Duration{1, 2}, []time.Duration{3, 4}), 0)
	require.InDelta(t, 0.5, likelihood([]time.Duration{1, 4}, []time.Duration{2, 3}), 0)
}

// The passwords are hashed by a stand-in, so what else takes time shows. That the hashes are as
// many is tested apart.
//
//nolint:paralleltest // it compares times
func TestTimeDoesNotTellWhetherAnAddressIsKnown(t *testing.T) {
	h := newHouse(t)
	address := func(known bool, round, i int) string {
		if known {
			return fmt.Sprintf("some-%d@example.com", i)
		}
		return fmt.Sprintf("none-%d-%d@example.com", round, i)
	}
	// caller is each time at another network address, so that no bound is reached.
	calls := 0
	caller := func() actor.Actor {
		calls++
		return actor.Actor{Kind: actor.System, SourceAddr: fmt.Sprintf("10.%d.%d.1", calls/256, calls%256)}
	}
	for i := range pairs {
		_, err := h.SignUp(t.Context(), caller(), SignupInput{Email: address(true, 0, i), Password: password})
		require.NoError(t, err)
	}
	for _, call := range []struct {
		name string
		do   func(ctx context.Context, email string) error
	}{
		{"login", func(ctx context.Context, email string) error {
			_, err := h.LogIn(ctx, caller(), LoginInput{Email: email, Password: "wrong horse"})
			return refused(err, fault.CodeInvalidCredentials)
		}},
		{"forgot password", func(ctx context.Context, email string) error { return h.ForgotPassword(ctx, caller(), email) }},
		{"resend", func(ctx context.Context, email string) error { return h.ResendVerification(ctx, caller(), email) }},
		// The last one: it makes unknown addresses known, so each round has its own.
		{"sign-up", func(ctx context.Context, email string) error {
			_, err := h.SignUp(ctx, caller(), SignupInput{Email: email, Password: password})
			return err
		}},
	} {
		var longer float64
		for round := range rounds {
			took := map[bool][]time.Duration{}
			for i := range pairs {
				for _, known := range []bool{i%2 == 0, i%2 != 0} { // what drifts meets both
					began := time.Now()
					err := call.do(t.Context(), address(known, round, i))
					took[known] = append(took[known], time.Since(began))
					require.NoError(t, err, call.name)
				}
			}
			longer = likelihood(took[true], took[false])
			if math.Abs(longer-0.5) < apart {
				break
			}
		}
		require.Less(t, math.Abs(longer-0.5), apart, "%s: a known address takes longer with a likelihood of %.2f, in each round", call.name, longer)
	}
}

// refused returns nil for the refusal that is expected.
func refused(err error, code fault.Code) error {
	if fault.HasCode(err, code) {
		return nil
	}
	return fmt.Errorf("not refused as it should be: %w", err)
}

// stuck are hashers that do not come back until they are told.
type stuck struct {
	*counted
	entered, release chan struct{}
}

func (s stuck) matches(password, stored string) (bool, error) {
	s.entered <- struct{}{}
	<-s.release
	return s.counted.matches(password, stored)
}

// While all hashers are busy and hundreds of logins wait for one, calls that need none are served.
func TestHashersDoNotStarveOtherCalls(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	login := h.join(t, "ada@example.com")
	busy := stuck{h.work, make(chan struct{}, 200), make(chan struct{})}
	h.passwords = busy
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			_, _ = h.LogIn(t.Context(), actor.Actor{SourceAddr: fmt.Sprintf("10.0.%d.1", i)}, LoginInput{Email: "bob@example.com", Password: password})
		})
	}
	for range h.cfg.Hashers {
		<-busy.entered
	}
	for range 20 {
		_, err := h.authenticate(t, login.Token)
		require.NoError(t, err)
		require.NoError(t, h.ForgotPassword(t.Context(), from(home), "ada@example.com"))
		_, err = h.Sessions(t.Context(), as(login))
		require.NoError(t, err)
	}
	close(busy.release)
	all.Wait()
}
