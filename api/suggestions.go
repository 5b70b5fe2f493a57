package api

import (
	"context"
	"fmt"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/verb"
)

// suggestions add to a refusal what the caller may have meant.
type suggestions struct{ catalog Catalog }

// suggest returns err, and where it is VERB_NOT_FOUND with verbs whose names are like the one
// that was asked for. A caller who may not read the catalog learns none. Where the verb's provider
// only has to be enabled, it says that.
func (s suggestions) suggest(ctx context.Context, c *wire.Call, text string, err error) error {
	f := fault.As(err)
	name, invalid := verb.Parse(text)
	if f == nil || f.Code != fault.CodeVerbNotFound || invalid != nil {
		return err
	}
	if told, said := s.sayNotEnabled(ctx, c, name, f); said {
		return told
	}
	if !c.ReadsCatalog {
		return err
	}
	meant, lost := s.catalog.Near(ctx, c.Actor.TenantID, name)
	if lost != nil {
		return err // the refusal stands without suggestions
	}
	told := *f
	for _, n := range meant.Verbs {
		told.Suggestions = append(told.Suggestions, n.String())
	}
	told.Message += meant.Text()
	return &told
}

// suggestOfPath is suggest for the provider, or the verb of a provider, that the path names.
func (s suggestions) suggestOfPath(ctx context.Context, c *wire.Call, err error) error {
	f, slug := fault.As(err), c.Param("slug")
	switch {
	case f == nil || slug == "":
		return err
	case f.Code == fault.CodeProviderNotFound:
		return s.suggestProvider(ctx, c, slug, err)
	default:
		return s.suggest(ctx, c, slug+":"+c.Param("name"), err)
	}
}

// suggestProvider returns err, and where it is PROVIDER_NOT_FOUND with the slug that may be meant.
func (s suggestions) suggestProvider(ctx context.Context, c *wire.Call, slug string, err error) error {
	f := fault.As(err)
	if f == nil || f.Code != fault.CodeProviderNotFound {
		return err
	}
	known, meant, lost := s.catalog.KnownProvider(ctx, c.Actor.TenantID, slug)
	if lost != nil || known || meant == "" {
		return err // the refusal stands without suggestions
	}
	told := *f
	told.Suggestions = append(told.Suggestions, meant)
	told.Message += " Did you mean " + meant + "?"
	return &told
}

// notEnabled says that a provider of the platform is not enabled, and what to do.
func notEnabled(slug string) string {
	return fmt.Sprintf("The platform's provider %s is not enabled. An owner or an admin enables it with POST /v1/providers/%[1]s/enable.", slug)
}

// sayNotEnabled returns f, which is VERB_NOT_FOUND, and says so where the verb's provider is one of
// the platform's that the tenant has not enabled. said reports whether it does.
func (s suggestions) sayNotEnabled(ctx context.Context, c *wire.Call, name verb.Name, f *fault.Error) (told *fault.Error, said bool) {
	o, err := s.catalog.Offer(ctx, c.Actor.TenantID, name.Provider)
	if err != nil || !o.Offered || o.Enabled || o.Hidden {
		return f, false // the refusal stands as it is
	}
	path := "/verb"
	if c.Param("verb") != "" {
		path = "path.verb"
	}
	more := *f
	more.Message = notEnabled(name.Provider)
	more.Details = append(more.Details, fault.Detail{Path: path, Rule: "provider_not_enabled", Message: more.Message})
	return &more, true
}
