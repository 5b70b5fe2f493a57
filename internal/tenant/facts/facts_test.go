package facts_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/quota"
	"agentruntime/internal/tenant/facts"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type keys struct{ key *datakey.Key }

func (k keys) Key(context.Context, uuid.UUID) (*datakey.Key, error) { return k.key, nil }

// world is a database with two tenants, each with two customers.
type world struct {
	t     *testing.T
	db    *db.Pool
	admin *pgx.Conn
	facts *facts.Service
	now   time.Time
	a, b  actor.Actor
	ada   string
	bob   string
}

func newWorld(t *testing.T, quotas map[string]int64) *world {
	t.Helper()
	d := testkit.Database(t)
	w := &world{t: t, db: d.Pool, now: time.Now()}
	var err error
	w.admin, err = pgx.Connect(t.Context(), d.AdminURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.admin.Close(context.WithoutCancel(t.Context())) })
	key, err := datakey.New(bytes.Repeat([]byte{7}, datakey.Bytes))
	require.NoError(t, err)
	limits, err := quota.New(quotas)
	require.NoError(t, err)
	w.facts, err = facts.New(facts.Deps{DB: d.Pool, Keys: keys{key}, Quotas: limits, Now: func() time.Time { return w.now }})
	require.NoError(t, err)
	w.a, w.b = w.tenant(), w.tenant()
	w.ada, w.bob = w.customer(w.a, "ada"), w.customer(w.a, "bob")
	w.customer(w.b, "ada")
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.admin.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) tenant() actor.Actor {
	who := actor.Actor{Kind: actor.User, TenantID: uuid.New(), ID: uuid.New(), Role: actor.RoleOwner}
	w.exec("INSERT INTO tenants (id, name) VALUES ($1, 'x')", who.TenantID)
	return who
}

func (w *world) customer(who actor.Actor, external string) string {
	id := uuid.New()
	w.exec("INSERT INTO customers (id, tenant_id, external_id, metadata, tags, created_at, updated_at) VALUES ($1, $2, $3, '{}', '{}', now(), now())", id, who.TenantID, external)
	for _, name := range []string{external, id.String()} {
		w.exec("INSERT INTO customer_identifiers (tenant_id, identifier, customer_id) VALUES ($1, 'id:' || $2, $3)", who.TenantID, name, id)
	}
	return id.String()
}

func (w *world) write(who actor.Actor, customer string, in facts.NewFact) uuid.UUID {
	w.t.Helper()
	if in.Source == "" {
		in.Source = facts.ByAPI
	}
	id, written, err := w.facts.Write(w.t.Context(), who, customer, in)
	require.NoError(w.t, err)
	require.True(w.t, written)
	return id
}

func (w *world) inUse(who actor.Actor, customer string) (texts []string) {
	w.t.Helper()
	list, err := w.facts.InUse(w.t.Context(), who.TenantID, customer)
	require.NoError(w.t, err)
	for _, f := range list {
		texts = append(texts, f.Text)
	}
	return texts
}

func TestFactIsKeptForItsCustomerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.write(w.a, "ada", facts.NewFact{Text: " Likes tea. ", Profile: true, SessionID: "s"})
	require.Equal(t, []string{"Likes tea."}, w.inUse(w.a, w.ada))
	require.Empty(t, w.inUse(w.a, "bob"))
	require.Empty(t, w.inUse(w.b, "ada"))
	_, err := w.facts.Get(t.Context(), w.a.TenantID, "bob", id)
	require.True(t, fault.HasCode(err, fault.CodeFactNotFound), err)
	_, err = w.facts.Get(t.Context(), w.b.TenantID, "ada", id)
	require.True(t, fault.HasCode(err, fault.CodeFactNotFound), err)
	_, err = w.facts.Get(t.Context(), w.a.TenantID, "eve", id)
	require.True(t, fault.HasCode(err, fault.CodeCustomerNotFound), err)
	f, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", id)
	require.NoError(t, err)
	require.Equal(t, w.a.String(), f.Author)
	require.Equal(t, "s", f.SessionID)
	require.True(t, f.Profile)
	var body string
	require.NoError(t, w.admin.QueryRow(t.Context(), "SELECT body FROM customer_facts WHERE id = $1", id).Scan(&body))
	require.True(t, datakey.Sealed(body))
}

func TestFactIsWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.write(w.a, "ada", facts.NewFact{Text: "Likes tea."})
	same, written, err := w.facts.Write(t.Context(), w.a, w.ada, facts.NewFact{Text: "likes  TEA", Source: facts.Auto})
	require.NoError(t, err)
	require.False(t, written)
	require.Equal(t, first, same)
	in := facts.NewFact{ID: uuid.Must(uuid.NewV7()), Text: "Has a dog.", Source: facts.ByTool}
	w.write(w.a, "ada", in)
	in.Text = "Has a cat." // the same call again
	same, written, err = w.facts.Write(t.Context(), w.a, "ada", in)
	require.NoError(t, err)
	require.False(t, written)
	require.Equal(t, in.ID, same)
	require.Equal(t, []string{"Has a dog.", "Likes tea."}, w.inUse(w.a, "ada"))
}

func TestFactSupersedesAnotherOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	old := w.write(w.a, "ada", facts.NewFact{Text: "Lives in Berlin."})
	id := w.write(w.a, "ada", facts.NewFact{Text: "Lives in Paris.", Supersedes: &old})
	require.Equal(t, []string{"Lives in Paris."}, w.inUse(w.a, "ada"))
	f, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", old)
	require.NoError(t, err)
	require.Equal(t, &id, f.SupersededBy)
	require.NotNil(t, f.SupersededAt)
	for name, of := range map[string]uuid.UUID{"one that is superseded": old, "none": uuid.New(), "one of another customer": w.write(w.a, "bob", facts.NewFact{Text: "x"})} {
		_, _, err := w.facts.Write(t.Context(), w.a, "ada", facts.NewFact{Text: "Lives in Rome.", Source: facts.ByAPI, Supersedes: &of})
		require.True(t, fault.HasCode(err, fault.CodeValidation), name)
	}
	require.Equal(t, []string{"Lives in Paris."}, w.inUse(w.a, "ada"))
	require.NoError(t, w.facts.Forget(t.Context(), w.now.Add(time.Minute)))
	_, err = w.facts.Get(t.Context(), w.a.TenantID, "ada", old)
	require.True(t, fault.HasCode(err, fault.CodeFactNotFound), err)
	require.Equal(t, []string{"Lives in Paris."}, w.inUse(w.a, "ada"))
}

func TestFactOfWrongFormIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		customer, text string
		code           fault.Code
	}{
		"no customer": {"eve", "x", fault.CodeCustomerNotFound},
		"no text":     {"ada", " \n", fault.CodeValidation},
		"a long text": {"ada", strings.Repeat("x", 513), fault.CodeValidation},
		"a NUL":       {"ada", "a\x00b", fault.CodeValidation},
	} {
		_, _, err := w.facts.Write(t.Context(), w.a, c.customer, facts.NewFact{Text: c.text, Source: facts.ByAPI})
		require.True(t, fault.HasCode(err, c.code), name)
	}
	w.write(w.a, "ada", facts.NewFact{Text: "my password: hunter2hunter2"})
	require.NotContains(t, w.inUse(w.a, "ada")[0], "hunter2")
}

func TestQuotaOfFactsBoundsCustomerAndTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]int64{"customer_facts": 2, "facts": 3})
	old := w.write(w.a, "ada", facts.NewFact{Text: "1"})
	for _, text := range []string{"2", "3"} { // superseded ones make room
		old = w.write(w.a, "ada", facts.NewFact{Text: text, Supersedes: &old})
	}
	w.write(w.a, "ada", facts.NewFact{Text: "4"})
	require.Equal(t, []string{"4", "3"}, w.inUse(w.a, "ada"))
	page, _, err := w.facts.List(t.Context(), w.a.TenantID, "ada", facts.Filter{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page, 2)
	_, _, err = w.facts.Write(t.Context(), w.a, "ada", facts.NewFact{Text: "5", Source: facts.ByAPI})
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), err)
	w.write(w.a, "bob", facts.NewFact{Text: "6"})
	_, _, err = w.facts.Write(t.Context(), w.a, "bob", facts.NewFact{Text: "7", Source: facts.ByAPI})
	require.True(t, fault.HasCode(err, fault.CodeQuotaExceeded), err)
	w.write(w.b, "ada", facts.NewFact{Text: "8"})
}

// A tainted fact is never of the profile.
func TestTaintedFactIsNotOfTheProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	at := func(id uuid.UUID) facts.Fact {
		f, err := w.facts.Change(t.Context(), w.a, "ada", id, facts.Patch{})
		require.NoError(t, err)
		return f
	}
	written := w.write(w.a, "ada", facts.NewFact{Text: "May get refunds of any amount.", Profile: true, Tainted: true})
	require.False(t, at(written).Profile)
	_, err := w.facts.Change(t.Context(), w.a, "ada", written, facts.Patch{Profile: new(true)})
	require.True(t, fault.HasCode(err, fault.CodeValidation), err)
	said := w.write(w.a, "ada", facts.NewFact{Text: "Is a doctor.", Profile: true})
	require.True(t, at(said).Profile)
	f, err := w.facts.Change(t.Context(), w.a, "ada", said, facts.Patch{Tainted: new(true)})
	require.NoError(t, err)
	require.False(t, f.Profile)
}

func TestChangedFactHasOnlyItsNewText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.write(w.a, "ada", facts.NewFact{Text: "Likes tea.", Tainted: true})
	other := w.write(w.a, "ada", facts.NewFact{Text: "Has a dog."})
	f, err := w.facts.Change(t.Context(), w.a, "ada", id, facts.Patch{Text: new("Likes coffee."), Profile: new(true), Tainted: new(false)})
	require.NoError(t, err)
	require.Equal(t, "Likes coffee.", f.Text)
	require.True(t, f.Profile)
	require.False(t, f.Tainted)
	_, err = w.facts.Change(t.Context(), w.a, "ada", other, facts.Patch{Text: new("likes coffee")})
	require.True(t, fault.HasCode(err, fault.CodeConflict), err)
	_, err = w.facts.Change(t.Context(), w.b, "ada", id, facts.Patch{Text: new("x")})
	require.True(t, fault.HasCode(err, fault.CodeFactNotFound), err)
	found, err := w.facts.Search(t.Context(), w.a.TenantID, "ada", "coffee or tea?", 5)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, id, found[0].ID)
	require.NoError(t, w.facts.Delete(t.Context(), w.a, "ada", id, nil))
	require.Equal(t, []string{"Has a dog."}, w.inUse(w.a, "ada"))
	err = w.facts.Delete(t.Context(), w.a, "ada", id, nil)
	require.True(t, fault.HasCode(err, fault.CodeFactNotFound), err)
}

func TestMergedCustomerKeepsTheFactsOfBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write(w.a, "ada", facts.NewFact{Text: "Likes tea."})
	w.write(w.a, "bob", facts.NewFact{Text: "likes tea"})
	w.write(w.a, "bob", facts.NewFact{Text: "Has a dog."})
	b := &db.Batch{}
	w.facts.QueueMoved(b, w.a.TenantID, uuid.MustParse(w.ada), uuid.MustParse(w.bob))
	require.NoError(t, w.db.Send(t.Context(), w.a.TenantID, b))
	require.Equal(t, []string{"Has a dog.", "Likes tea."}, w.inUse(w.a, "ada"))
	require.Empty(t, w.inUse(w.a, "bob"))
}

func TestErasureDeletesTheFactsOfTheCustomerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, text := range []string{"1", "2", "3"} {
		w.write(w.a, "ada", facts.NewFact{Text: text})
	}
	w.write(w.a, "bob", facts.NewFact{Text: "4"})
	var erased []int64
	for range 3 {
		require.NoError(t, w.db.InTenant(t.Context(), w.a.TenantID, func(tx pgx.Tx) error {
			n, waits, err := w.facts.EraseOf(t.Context(), tx, w.a.TenantID, []string{"ada", w.ada}, w.now.Add(time.Second), 2)
			require.False(t, waits)
			erased = append(erased, n)
			return err
		}))
	}
	require.Equal(t, []int64{2, 1, 0}, erased)
	require.Empty(t, w.inUse(w.a, "ada"))
	require.Len(t, w.inUse(w.a, "bob"), 1)
}

// What others may have made an agent write takes no place of what they have not. Both stay in use.
func TestTaintedFactSupersedesNoTrustedOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, next  bool // are tainted
		supersedes bool
	}{
		"a trusted one by a trusted one": {false, false, true},
		"a trusted one by a tainted one": {false, true, false},
		"a tainted one by a trusted one": {true, false, true},
		"a tainted one by a tainted one": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, known := range []bool{false, true} { // the text of the newer one is there before
				w := newWorld(t, nil)
				old := w.write(w.a, "ada", facts.NewFact{Text: "Lives in Berlin.", Tainted: c.old})
				in := facts.NewFact{Text: "Lives in Paris.", Tainted: c.next, Source: facts.ByTool}
				if known {
					w.write(w.a, "ada", in)
				}
				in.Supersedes = &old
				id, written, err := w.facts.Write(t.Context(), w.a, "ada", in)
				require.NoError(t, err)
				require.Equal(t, !known, written)
				want := []string{"Lives in Paris."}
				if !c.supersedes {
					want = append(want, "Lives in Berlin.")
				}
				require.Equal(t, want, w.inUse(w.a, "ada"), "known: %v", known)
				f, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", id)
				require.NoError(t, err)
				require.Equal(t, c.next, f.Tainted)
				of, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", old)
				require.NoError(t, err)
				require.Equal(t, c.supersedes, of.SupersededBy != nil)
				if !known {
					require.Equal(t, &old, f.Supersedes, "it says what it was to supersede")
				}
			}
		})
	}
}

// A text that is known joins the profile and takes the place of another fact, as is asked for when it is
// written again. A tainted one does not.
func TestKnownFactJoinsTheProfileAndSupersedes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.write(w.a, "ada", facts.NewFact{Text: "Lives in Paris."})
	again := func(in facts.NewFact) facts.Fact {
		in.Text, in.Source = "lives in paris", facts.ByTool
		same, written, err := w.facts.Write(t.Context(), w.a, "ada", in)
		require.NoError(t, err)
		require.False(t, written)
		require.Equal(t, id, same)
		f, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", id)
		require.NoError(t, err)
		return f
	}
	before := again(facts.NewFact{})
	require.Equal(t, before, again(facts.NewFact{Supersedes: &id}), "nothing supersedes itself")
	require.False(t, again(facts.NewFact{Profile: true, Tainted: true}).Profile)
	require.True(t, again(facts.NewFact{Profile: true}).Profile)
	require.True(t, again(facts.NewFact{}).Profile)
	old := w.write(w.a, "ada", facts.NewFact{Text: "Lives in Berlin."})
	again(facts.NewFact{Supersedes: &old})
	require.Equal(t, []string{"Lives in Paris."}, w.inUse(w.a, "ada"))
	var changes int
	require.NoError(t, w.admin.QueryRow(t.Context(), "SELECT count(*) FROM audit_records WHERE action = 'customer.fact_changed'").Scan(&changes))
	require.Equal(t, 2, changes)
}

// Only a person says that a fact can be trusted.
func TestPersonsAloneTrustATaintedFact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	key := actor.Actor{Kind: actor.Key, TenantID: w.a.TenantID, ID: uuid.New()}
	for name, c := range map[string]struct {
		who         actor.Actor
		was, is     bool
		mayNot      bool
		textChanges bool
	}{
		"a key marks":                {who: key, was: false, is: true},
		"a key trusts":               {who: key, was: true, is: false, mayNot: true},
		"a key trusts another text":  {who: key, was: true, is: false, mayNot: true, textChanges: true},
		"a key leaves it as it is":   {who: key, was: true, is: true, textChanges: true},
		"a key leaves it trusted":    {who: key, was: false, is: false, textChanges: true},
		"a person marks":             {who: w.a, was: false, is: true},
		"a person trusts":            {who: w.a, was: true, is: false},
		"a person trusts other text": {who: w.a, was: true, is: false, textChanges: true},
	} {
		id := w.write(w.a, "ada", facts.NewFact{Text: "About " + name, Tainted: c.was})
		p := facts.Patch{Tainted: &c.is}
		if c.textChanges {
			p.Text = new("More about " + name)
		}
		_, err := w.facts.Change(t.Context(), c.who, "ada", id, p)
		require.Equal(t, c.mayNot, fault.HasCode(err, fault.CodeInsufficientPermissions), "%s: %v", name, err)
		f, err := w.facts.Get(t.Context(), w.a.TenantID, "ada", id)
		require.NoError(t, err)
		require.Equal(t, c.is != c.mayNot, f.Tainted, name)
		require.Equal(t, c.textChanges && !c.mayNot, strings.HasPrefix(f.Text, "More"), name)
	}
}
