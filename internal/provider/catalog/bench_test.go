package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/verb"
	"agentruntime/internal/provider/catalog"
)

// fill imports providers of 200 verbs each, with schemas of 1 to 4 KB, and connects every
// other provider. Shared ones are the platform's, which the tenant enables.
func (r *rig) fill(b *testing.B, verbs int, shared bool) {
	b.Helper()
	platform := r.operator(b)
	const each = 200
	for p := range verbs / each {
		slug := fmt.Sprintf("p%04d", p)
		rows := make([]verb.Definition, each)
		for i := range rows {
			risk := []verb.Risk{verb.RiskLow, verb.RiskLow, verb.RiskMedium, verb.RiskHigh}[i%4]
			rows[i] = newVerb(fmt.Sprintf("operation_%03d_of_the_provider", i), fmt.Sprintf("domain_%d", i%5), risk)
			properties := map[string]any{}
			for n := range 10 + i%30 {
				properties[fmt.Sprintf("argument_%d_%d", i, n)] = map[string]string{"type": "string", "description": strings.Repeat("What it is. ", 5)}
			}
			schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": []string{}})
			require.NoError(b, err)
			rows[i].Schema, rows[i].Plan = schema, schema
		}
		if shared {
			_, err := platform.Replace(context.Background(), provider(slug, "bearer"), rows)
			require.NoError(b, err)
			r.enable(b, r.tenant, slug)
		} else {
			r.replace(b, r.tenant, provider(slug, "bearer"), rows...)
		}
		if p%2 == 0 {
			r.connect(b, r.tenant, slug, "active", "")
		}
	}
	_, err := r.admin.Exec(context.Background(), "vacuum analyze")
	require.NoError(b, err)
}

// BenchmarkList reads pages of 100 verbs of the tenant's own. A first page of the large
// catalog is to take at most twice the time of one of the small, without and with each filter.
func BenchmarkList(b *testing.B) { benchmarkList(b, false) }

// BenchmarkListShared reads the same pages where all verbs are the platform's.
func BenchmarkListShared(b *testing.B) { benchmarkList(b, true) }

func benchmarkList(b *testing.B, shared bool) {
	b.Helper()
	filters := []struct {
		name   string
		filter catalog.Filter
	}{
		{"all", catalog.Filter{}},
		{"provider", catalog.Filter{Provider: "p0002"}},
		{"domain", catalog.Filter{Domain: "domain_3"}},
		{"risk", catalog.Filter{Risk: verb.RiskHigh}},
		{"connected", catalog.Filter{ConnectedOnly: true}},
		{"domain_risk", catalog.Filter{Domain: "domain_3", Risk: verb.RiskHigh}},
		{"provider_risk", catalog.Filter{Provider: "p0002", Risk: verb.RiskLow}},
		{"last_page", catalog.Filter{Offset: -1}},
		{"search", catalog.Filter{Q: "operation_077"}},
	}
	for _, size := range []int{1_000, 100_000} {
		r := newRig(b)
		r.fill(b, size, shared)
		for _, f := range filters {
			b.Run(fmt.Sprintf("%s/%d", f.name, size), func(b *testing.B) {
				filter := f.filter
				filter.Limit = 100
				if filter.Offset < 0 {
					filter.Offset = size - filter.Limit
				}
				for b.Loop() {
					page, err := r.List(context.Background(), r.tenant, filter)
					require.NoError(b, err)
					require.NotEmpty(b, page.Verbs)
				}
			})
		}
	}
}

// BenchmarkReplace imports 1,223 verbs, as many as GitHub's document has.
func BenchmarkReplace(b *testing.B) {
	r := newRig(b)
	rows := make([]verb.Definition, 1223)
	for i := range rows {
		rows[i] = newVerb(fmt.Sprintf("operation_%04d", i), fmt.Sprintf("domain_%d", i%40), verb.RiskLow)
		rows[i].Schema = json.RawMessage(`{"type":"object","description":"` + strings.Repeat(fmt.Sprintf("%d ", i), 500) + `"}`)
		rows[i].Plan = rows[i].Schema
	}
	for b.Loop() {
		r.replace(b, r.tenant, provider("github", "bearer"), rows...)
	}
}

// BenchmarkMeta is the look-up of a run or an evaluation, of an own and of a shared verb.
func BenchmarkMeta(b *testing.B) {
	for name, shared := range map[string]bool{"own": false, "shared": true} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			r.fill(b, 1_000, shared)
			for b.Loop() {
				_, err := r.meta(b, r.tenant, verb.Name{Provider: "p0002", Verb: "operation_077_of_the_provider"})
				require.NoError(b, err)
			}
		})
	}
}
