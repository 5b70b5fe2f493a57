package customer_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/record/quota"
	"agentruntime/internal/tenant/customer"
)

func TestUpsertMakesACustomerOnceAndThenChangesIt(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	first, created, err := o.Upsert(t.Context(), o.who, customer.Identity{
		Email: new("Ada@Example.COM"), Phone: new("+49 (0) 1512 345-6789"), ExternalID: new("u1"), Name: new("Ada"),
		Metadata: json.RawMessage(`{"plan":"gold","n":9007199254740993,"in":{"a":1,"b":2}}`),
	})
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, "ada@example.com", *first.Email)
	require.Equal(t, "+4915123456789", *first.Phone)
	for name, in := range map[string]customer.Identity{
		"by the address in another case":  {Email: new("ADA@example.com")},
		"by the number as people type it": {Phone: new("+49 1512/3456789")},
		"by the external id":              {ExternalID: new("u1")},
		"by all three":                    {Email: new("ada@example.com"), Phone: new("+4915123456789"), ExternalID: new("u1")},
	} {
		again, created, err := o.Upsert(t.Context(), o.who, in)
		require.NoError(t, err, name)
		require.False(t, created, name)
		require.Equal(t, first, again, name)
	}
	require.Equal(t, 1, o.count("SELECT count(*) FROM audit_records WHERE subject_type = 'customer'"), "what changes nothing leaves no record")
	changed := o.made(customer.Identity{ExternalID: new("u1"), Name: new("Ada Lovelace"), Metadata: json.RawMessage(`{"plan":null,"in":{"a":null,"c":[1]}}`)})
	require.Equal(t, first.ID, changed.ID)
	require.Equal(t, "Ada Lovelace", *changed.Name)
	require.JSONEq(t, `{"n":9007199254740993,"in":{"b":2,"c":[1]}}`, string(changed.Metadata))
	require.Contains(t, string(changed.Metadata), "9007199254740993")
	for _, reference := range []string{first.ID.String(), "u1"} {
		got, err := o.Get(t.Context(), o.who.TenantID, reference)
		require.NoError(t, err)
		require.Equal(t, changed, got)
	}
	_, err = o.Get(t.Context(), o.tenant().TenantID, "u1")
	refused(t, fault.CodeCustomerNotFound, err)
}

func TestFiftyUpsertsOfOneIdentifierMakeOneCustomer(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ids := make([]uuid.UUID, 50)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			in := customer.Identity{Email: new("ada@example.com")}
			if i%2 == 0 { // half of them name it by another identifier too
				in.ExternalID = new("u1")
			}
			c, _, err := o.Upsert(t.Context(), o.who, in)
			if err != nil {
				t.Errorf("upsert %d: %v", i, err)
			}
			ids[i] = c.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Equal(t, 1, o.count("SELECT count(*) FROM customers"))
	require.Equal(t, 3, o.count("SELECT count(*) FROM customer_identifiers"))
	require.Equal(t, 1, o.count("SELECT count(*) FROM audit_records WHERE action = 'customer.created'"))
}

func TestIdentifiersOfTwoCustomersAreAConflictWithBothIDs(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada, bob := o.made(customer.Identity{Email: new("ada@example.com")}), o.made(customer.Identity{ExternalID: new("u2"), Phone: new("+4915123456789")})
	_, _, err := o.Upsert(t.Context(), o.who, customer.Identity{Email: new("ada@example.com"), ExternalID: new("u2")})
	f := refused(t, fault.CodeConflict, err)
	require.ElementsMatch(t, []string{ada.ID.String(), bob.ID.String()}, f.CustomerIDs)
	require.Len(t, f.Details, 2)
	_, _, err = o.Upsert(t.Context(), o.who, customer.Identity{ExternalID: new(ada.ID.String()), Email: new("new@example.com")})
	require.NoError(t, err, "an id of ours as external_id names the same customer")
	got, err := o.Get(t.Context(), o.who.TenantID, ada.ID.String())
	require.NoError(t, err)
	require.Equal(t, "new@example.com", *got.Email)
	require.Nil(t, got.ExternalID)
}

// A weak identifier must not take the record of another person over.
func TestUpsertReplacesOnlyWeakerIdentifiers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		given customer.Identity
		want  string // path of what is refused, "" where nothing is
	}{
		{"email by external id", customer.Identity{ExternalID: new("u1"), Email: new("new@example.com")}, ""},
		{"phone by external id", customer.Identity{ExternalID: new("u1"), Phone: new("+4915123456780")}, ""},
		{"phone by email", customer.Identity{Email: new("ada@example.com"), Phone: new("+4915123456780")}, ""},
		{"email by phone", customer.Identity{Phone: new("+4915123456789"), Email: new("new@example.com")}, "/email"},
		{"external id by email", customer.Identity{Email: new("ada@example.com"), ExternalID: new("u2")}, "/external_id"},
		{"external id by phone", customer.Identity{Phone: new("+4915123456789"), ExternalID: new("u2")}, "/external_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			ada := o.made(customer.Identity{Email: new("ada@example.com"), Phone: new("+4915123456789"), ExternalID: new("u1")})
			got, _, err := o.Upsert(t.Context(), o.who, c.given)
			if c.want != "" {
				f := refused(t, fault.CodeConflict, err)
				require.Equal(t, c.want, f.Details[0].Path)
				require.Equal(t, []string{ada.ID.String()}, f.CustomerIDs)
				return
			}
			require.NoError(t, err)
			require.Equal(t, ada.ID, got.ID)
			require.Equal(t, 4, o.count("SELECT count(*) FROM customer_identifiers"), "the replaced one is free again")
		})
	}
}

func TestCustomerRefusesWhatItCannotStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for name, in := range map[string]customer.Identity{
		"no identifier":             {Name: new("Ada")},
		"no address":                {Email: new("ada")},
		"an address with a name":    {Email: new("Ada <ada@example.com>")},
		"a line break in a name":    {Email: new("a@example.com"), Name: new("Ada\r\nBcc: all@example.com")},
		"no name":                   {Email: new("a@example.com"), Name: new("")},
		"a national number":         {Phone: new("030 123456")},
		"a number too short":        {Phone: new("+491")},
		"letters in a number":       {Phone: new("+1800FLOWERS")},
		"an extension":              {Phone: new("+49301234567;ext=5")},
		"a space in an external id": {ExternalID: new("a b")},
		"a tag twice as long":       {ExternalID: new("x"), Tags: []string{strings.Repeat("x", 65)}},
		"a line break in a tag":     {ExternalID: new("x"), Tags: []string{"a\nb"}},
		"too much metadata":         {ExternalID: new("x"), Metadata: json.RawMessage(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`)},
	} {
		_, _, err := o.Upsert(t.Context(), o.who, in)
		require.Equal(t, fault.CodeValidation, fault.As(err).Code, name)
	}
	require.Zero(t, o.count("SELECT count(*) FROM customers"))
}

func TestCustomersHaveAQuota(t *testing.T) {
	t.Parallel()
	quotas, err := quota.New(map[string]int64{"customers": 1})
	require.NoError(t, err)
	o := newOfficeWith(t, quotas)
	o.made(customer.Identity{ExternalID: new("u1")})
	o.made(customer.Identity{ExternalID: new("u1"), Name: new("Ada")})
	_, _, err = o.Upsert(t.Context(), o.who, customer.Identity{ExternalID: new("u2")})
	refused(t, fault.CodeQuotaExceeded, err)
}

// What an immutable record contains could not be erased.
func TestAuditNamesFieldsWithoutValues(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.made(customer.Identity{Email: new("secret@example.com"), Name: new("Secret"), Metadata: json.RawMessage(`{"secret":1}`)})
	require.Equal(t, 1, o.count(`SELECT count(*) FROM audit_records WHERE details::jsonb = '{"fields": ["email", "name", "metadata"]}'`))
	require.Zero(t, o.count(`SELECT count(*) FROM audit_records r WHERE r::text ILIKE '%secret%'`))
}
