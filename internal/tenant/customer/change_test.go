package customer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/tenant/customer"
)

// set is a member of a patch; none removes it.
func set(s string) **string {
	p := &s
	return &p
}

func none() **string { return new(*string) }

func TestPatchChangesWhatItNames(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada := o.made(customer.Identity{Email: new("ada@example.com"), ExternalID: new("u1"), Name: new("Ada"), Metadata: json.RawMessage(`{"a":1,"b":{"c":2}}`)})
	got, err := o.Change(t.Context(), o.who, "u1", customer.Patch{
		Email: set("Ada@Example.org"), Name: none(), Phone: set("+4915123456789"), Metadata: json.RawMessage(`{"a":null,"b":{"d":3}}`), Tags: []string{"vip", "eu", "vip"},
	})
	require.NoError(t, err)
	require.Equal(t, ada.ID, got.ID)
	require.Equal(t, []any{"ada@example.org", "+4915123456789"}, []any{*got.Email, *got.Phone})
	require.Nil(t, got.Name)
	require.JSONEq(t, `{"b":{"c":2,"d":3}}`, string(got.Metadata))
	require.Equal(t, []string{"vip", "eu"}, got.Tags)
	read, err := o.Get(t.Context(), o.who.TenantID, ada.ID.String())
	require.NoError(t, err)
	require.Equal(t, got, read)
	bob := o.made(customer.Identity{Email: new("ada@example.com")})
	require.NotEqual(t, ada.ID, bob.ID, "the address before is free")
	got, err = o.Change(t.Context(), o.who, "u1", customer.Patch{Metadata: json.RawMessage(`null`)})
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(got.Metadata))

	for name, c := range map[string]struct {
		reference string
		patch     customer.Patch
		code      fault.Code
	}{
		"nobody":                     {"u2", customer.Patch{}, fault.CodeCustomerNotFound},
		"the address of another one": {"u1", customer.Patch{Email: set("ada@example.com")}, fault.CodeConflict},
		"another external id":        {"u1", customer.Patch{ExternalID: set("u2")}, fault.CodeConflict},
		"no external id":             {"u1", customer.Patch{ExternalID: none()}, fault.CodeConflict},
		"no identifier":              {bob.ID.String(), customer.Patch{Email: none()}, fault.CodeValidation},
		"no name":                    {"u1", customer.Patch{Name: set("")}, fault.CodeValidation},
		"too much metadata":          {"u1", customer.Patch{Metadata: json.RawMessage(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`)}, fault.CodeValidation},
	} {
		_, err := o.Change(t.Context(), o.who, c.reference, c.patch)
		require.Equal(t, c.code, fault.As(err).Code, name)
	}
}

func TestMergedCustomerIsNamedByAllIdentifiers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada := o.made(customer.Identity{Email: new("ada@example.com"), Metadata: json.RawMessage(`{"a":1,"both":"ada"}`), Tags: []string{"vip"}})
	twin := o.made(customer.Identity{Email: new("lovelace@example.com"), ExternalID: new("u2"), Name: new("Ada L."), Metadata: json.RawMessage(`{"b":2,"both":"twin"}`), Tags: []string{"eu"}})
	got, err := o.Merge(t.Context(), o.who, ada.ID.String(), "u2")
	require.NoError(t, err)
	require.Equal(t, ada.ID, got.ID)
	require.Equal(t, []any{"ada@example.com", "u2", "Ada L."}, []any{*got.Email, *got.ExternalID, *got.Name})
	require.JSONEq(t, `{"a":1,"b":2,"both":"ada"}`, string(got.Metadata))
	require.Equal(t, []string{"vip", "eu"}, got.Tags)
	for _, reference := range []string{ada.ID.String(), twin.ID.String(), "u2"} {
		read, err := o.Get(t.Context(), o.who.TenantID, reference)
		require.NoError(t, err, reference)
		require.Equal(t, got, read)
	}
	again, created, err := o.Upsert(t.Context(), o.who, customer.Identity{Email: new("lovelace@example.com")})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, got, again, "a former address finds the customer, and does not become its address")
	require.Equal(t, 1, o.count("SELECT count(*) FROM customers"))
	require.Equal(t, 1, o.count("SELECT count(*) FROM events WHERE type = 'customer.merged' AND customer_id = $1", ada.ID))
	_, err = o.Merge(t.Context(), o.who, "u2", twin.ID.String())
	refused(t, fault.CodeValidation, err)
	_, err = o.Merge(t.Context(), o.who, "u2", "nobody")
	refused(t, fault.CodeCustomerNotFound, err)
}

func TestMergesOfOneCustomerAreBounded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.made(customer.Identity{ExternalID: new("u")})
	o.exec(`INSERT INTO customer_identifiers SELECT tenant_id, 'id:alias-' || n, id FROM customers, generate_series(1, 97) AS n`)
	o.made(customer.Identity{ExternalID: new("other")})
	_, err := o.Merge(t.Context(), o.who, "u", "other")
	refused(t, fault.CodeConflict, err)
}

// names returns what a list has.
func (o *office) names(f customer.Filter) (list []string) {
	o.t.Helper()
	for {
		page, last, more, err := o.List(o.t.Context(), o.who.TenantID, f)
		require.NoError(o.t, err)
		for _, c := range page {
			list = append(list, *c.ExternalID)
			f.Before = &c.ID
		}
		if !more {
			return list
		}
		if f.Search != "" {
			f.Before, f.After = nil, &last
		}
	}
}

func TestSearchFindsBeginningsInPages(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for i, name := range []string{"Ada Lovelace", "Adam Smith", "Grace Hopper", "Ädalheid İnci"} {
		o.made(customer.Identity{ExternalID: new(fmt.Sprint("u", i)), Email: new(fmt.Sprintf("p%d@ada.example.com", i)), Name: new(name), Tags: []string{"all", fmt.Sprint("t", i%2)}})
	}
	_, _, err := o.Upsert(t.Context(), o.tenant(), customer.Identity{ExternalID: new("theirs"), Name: new("Ada")})
	require.NoError(t, err)
	for _, c := range []struct {
		filter customer.Filter
		want   []string
	}{
		{customer.Filter{}, []string{"u3", "u2", "u1", "u0"}},
		{customer.Filter{Tag: "t0"}, []string{"u2", "u0"}},
		{customer.Filter{Tag: "none"}, nil},
		{customer.Filter{Search: "ada l"}, []string{"u0"}},
		{customer.Filter{Search: "ADAM"}, []string{"u1"}},
		{customer.Filter{Search: "hop"}, []string{"u2"}},
		{customer.Filter{Search: "äda"}, []string{"u3"}},
		{customer.Filter{Search: "p2@"}, []string{"u2"}},
		{customer.Filter{Search: "u"}, []string{"u0", "u1", "u2", "u3"}},
		{customer.Filter{Search: "%"}, nil},
		{customer.Filter{Search: "ada", Tag: "t1"}, []string{"u3", "u1"}},
		{customer.Filter{Email: "P1@ada.example.com"}, []string{"u1"}},
		{customer.Filter{ExternalID: "u3"}, []string{"u3"}},
		{customer.Filter{ExternalID: "u3", Tag: "t0"}, nil},
		{customer.Filter{ExternalID: "theirs"}, nil},
	} {
		for limit := 1; limit <= 5; limit++ { // each page size gives the same list
			c.filter.Limit = limit
			got := o.names(c.filter)
			if c.filter.Search == "ada" {
				slices.Sort(got)
				slices.Reverse(got)
			}
			require.Equal(t, c.want, got, "%+v", c.filter)
		}
	}
	got := o.names(customer.Filter{Search: "ada", Limit: 1})
	require.ElementsMatch(t, []string{"u0", "u1", "u2", "u3"}, got, "each once, though two terms of it match")
	_, _, _, err = o.List(t.Context(), o.who.TenantID, customer.Filter{Search: "a", Email: "a@example.com", Limit: 1})
	refused(t, fault.CodeValidation, err)
}

func TestIdentifyFindsOrMakesTheCustomerOfAMessage(t *testing.T) {
	t.Parallel()
	type want struct {
		of      string // external id, or address, of the customer; "" for none
		created bool
		ignored []string
		code    fault.Code
	}
	for _, c := range []struct {
		name     string
		mode     customer.Mode
		id       string
		identity string
		want     want
	}{
		{"anonymous stores nothing", customer.Anonymous, "new", `{"email":"new@example.com"}`, want{}},
		{"identified without identity", customer.Identified, "", "", want{}},
		{"identified by a name alone", customer.Identified, "", `{"name":"Ada"}`, want{}},
		{"required without identity", customer.Required, "", "", want{code: fault.CodeIdentityRequired}},
		{"required with an empty identity", customer.Required, "", `{}`, want{code: fault.CodeIdentityRequired}},
		{"known external id", customer.Required, "u1", "", want{of: "u1"}},
		{"unknown customer id", customer.Identified, "u9", "", want{of: "u9", created: true}},
		{"unknown customer id with an identity", customer.Identified, "u9", `{"email":"nine@example.com"}`, want{of: "u9", created: true}},
		{"known address", customer.Identified, "", `{"email":"ADA@example.com"}`, want{of: "u1"}},
		{"new address", customer.Required, "", `{"email":"new@example.com"}`, want{of: "new@example.com", created: true}},
		{"customer id wins over an address of another", customer.Identified, "u1", `{"email":"bob@example.com"}`, want{of: "u1", ignored: []string{"identity.email"}}},
		{"customer id wins over an external id of another", customer.Identified, "u1", `{"external_id":"u2"}`, want{of: "u1", ignored: []string{"identity.external_id"}}},
		{"customer id wins over a new external id", customer.Identified, "u9", `{"external_id":"u10"}`, want{of: "u9", created: true, ignored: []string{"identity.external_id"}}},
		{"a new customer takes nobody's address", customer.Identified, "u9", `{"email":"bob@example.com"}`, want{of: "u9", created: true, ignored: []string{"identity.email"}}},
		{"the stronger identifier of two customers", customer.Identified, "", `{"external_id":"u2","email":"ada@example.com"}`, want{of: "u2", ignored: []string{"identity.email"}}},
		{"an address does not replace an external id", customer.Identified, "", `{"external_id":"u10","email":"ada@example.com"}`, want{of: "u1", ignored: []string{"identity.external_id"}}},
		{"no customer id", customer.Identified, "a b", "", want{code: fault.CodeValidation}},
		{"no address", customer.Identified, "", `{"email":"x"}`, want{code: fault.CodeValidation}},
		{"no object", customer.Identified, "", `[]`, want{code: fault.CodeValidation}},
		{"a number for a name", customer.Identified, "u1", `{"name":1}`, want{code: fault.CodeValidation}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.made(customer.Identity{ExternalID: new("u1"), Email: new("ada@example.com")})
			o.made(customer.Identity{ExternalID: new("u2"), Email: new("bob@example.com")})
			got, err := o.Identify(t.Context(), o.who, customer.Presented{Mode: c.mode, CustomerID: c.id, Identity: json.RawMessage(c.identity)})
			if c.want.code != "" {
				refused(t, c.want.code, err)
				return
			}
			require.NoError(t, err)
			made := 2
			if c.want.created {
				made++
			}
			require.Equal(t, made, o.count("SELECT count(*) FROM customers"))
			if c.want.of == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, c.want.created, got.Created)
			require.Equal(t, c.want.ignored, got.Ignored)
			is := got.Customer.ExternalID
			if is == nil {
				is = got.Customer.Email
			}
			require.Equal(t, c.want.of, *is)
			again, err := o.Identify(t.Context(), o.who, customer.Presented{Mode: c.mode, CustomerID: c.id, Identity: json.RawMessage(c.identity)})
			require.NoError(t, err)
			require.Equal(t, got.Customer, again.Customer, "a repeat finds the same one")
		})
	}
}

func TestIdentifyKeepsMembersThatItDoesNotKnowApart(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	got, err := o.Identify(t.Context(), o.who, customer.Presented{
		Mode: customer.Identified, CustomerID: "u1", Identity: json.RawMessage(`{"name":"Ada","plan":"gold","metadata":{"a":1}}`),
	})
	require.NoError(t, err)
	require.Equal(t, "Ada", *got.Customer.Name)
	require.JSONEq(t, `{}`, string(got.Customer.Metadata), "no visitor writes what policies read")
	require.Contains(t, string(got.Customer.Claimed), `"plan"`)
}
