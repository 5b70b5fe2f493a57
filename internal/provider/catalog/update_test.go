package catalog_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/catalog"
)

// Of two changes that have read the same document, the second does not undo the first.
func TestUpdateOfWhatHasChangedIsAConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	imports := func(of *catalog.Kept, baseURL string) error {
		r.clock = r.clock.Add(time.Second)
		p := provider("shop", "bearer")
		p.BaseURL = baseURL
		document := []byte(`{}`)
		p.DocumentHash = catalog.HashOf(document)
		in := catalog.Import{Provider: p, Source: &catalog.Source{Document: document, Settings: catalog.Settings{BaseURL: baseURL}}}
		if of != nil {
			in.Update = &catalog.Update{Of: *of, Fields: []string{"base_url"}}
		}
		_, err := r.Import(t.Context(), by(r.tenant), in)
		return err
	}
	require.NoError(t, imports(nil, "https://one.test"))
	kept, err := r.Kept(t.Context(), r.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, "https://one.test", kept.Settings.BaseURL)
	document, err := kept.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "{}", string(document))
	require.NoError(t, imports(&kept, "https://two.test"))
	requireCode(t, imports(&kept, "https://three.test"), fault.CodeConflict)
	require.NoError(t, r.DeleteProvider(t.Context(), by(r.tenant), "shop", nil))
	requireCode(t, imports(&kept, "https://three.test"), fault.CodeProviderNotFound)
	_, err = r.Kept(t.Context(), r.tenant, "shop")
	requireCode(t, err, fault.CodeProviderNotFound)
}

func TestProviderOfThePlatformIsNotChangedByATenant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.operator(t)
	_, err := p.Replace(t.Context(), provider("crm", "bearer"), nil)
	require.NoError(t, err)
	r.enable(t, r.tenant, "crm")
	name := "mine"
	for _, tenant := range []uuid.UUID{r.tenant, r.other} { // one has enabled it
		_, err = r.Rename(t.Context(), by(tenant), "crm", &name, nil)
		requireCode(t, err, fault.CodeInsufficientPermissions)
		_, err = r.Kept(t.Context(), tenant, "crm")
		requireCode(t, err, fault.CodeInsufficientPermissions)
		_, err = r.Document(t.Context(), tenant, "crm")
		requireCode(t, err, fault.CodeDocumentNotFound)
		requireCode(t, r.DeleteProvider(t.Context(), by(tenant), "crm", nil), fault.CodeInsufficientPermissions)
	}
}
