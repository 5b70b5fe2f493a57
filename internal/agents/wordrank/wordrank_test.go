package wordrank_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/agents/wordrank"
)

// texts and keys are the words of a text, those that say nothing left out.
func texts(text string) (list []string) {
	for _, w := range wordrank.Words(text) {
		if !w.Function {
			list = append(list, w.Text)
		}
	}
	return list
}

func keys(text string) (list []string) {
	for _, w := range wordrank.Words(text) {
		list = append(list, w.Key)
	}
	return list
}

func TestWordsOfAText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"Where is my order?":               "where order",
		"shop:create_refund":               "shop create refund createrefund",
		"createRefund":                     "create refund createrefund",
		"HTTPServer2":                      "http server2 httpserver2",
		"two URLs":                         "two urls",
		"ord_17A9":                         "ord 17 ord17 a9 17a9",
		"e-mail":                           "e mail email",
		"Größe Café ÉTÉ":                   "grose cafe ete",
		"注文を返金":                            "注文 文を を返 返金",
		"payの":                             "pay の",
		"คืนเงิน":                          "คื ืน นเ เง งิ ิน",
		"환불해":                              "환불 불해",
		"a\x00b\xffc":                      "b",
		strings.Repeat("x", 100):           strings.Repeat("x", 64),
		"Ёлка ДОГОВОР":                     "елка договор",
		"ﬁle ＡＢＣ":                          "file abc",
		"please can you tell me how it is": "tell",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, texts(text)...), "%q", text)
	}
}

func TestFormsOfAWordHaveOneKey(t *testing.T) {
	t.Parallel()
	for _, same := range []string{
		"order orders ordered ordering", "refund Refunds REFUNDED refunding", "company companies", "address addresses", "invoice invoices invoiced invoicing",
		"cancel cancels cancelled canceled cancelling", "ship ships shipped shipping", "call calls called calling", "box boxes", "reply replies replied replying",
		"movie movies", "key keys",
	} {
		got := keys(same)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(got))), 1, "%s: %v", same, got)
	}
	for _, apart := range []string{"status state", "need ne", "string str", "refund fund", "bus bu", "business busy", "seed see"} {
		got := keys(apart)
		require.NotEqual(t, got[0], got[1], apart)
	}
}

func verbs() []wordrank.Doc {
	return []wordrank.Doc{
		{Name: "shop:get_order", Text: "Returns one order with its lines."},
		{Name: "shop:list_orders", Text: "Lists the orders of a customer."},
		{Name: "shop:create_refund", Text: "Refunds an order, in part or whole."},
		{Name: "shop:get_refund", Text: "Returns a refund."},
		{Name: "mail:sendMessage", Text: "Sends an e-mail to a customer."},
		{Name: "shop:注文", Text: "注文を返金する"},
		{Name: "empty"},
	}
}

func TestRankByTheWordsOfAQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		first int
		words string
		hits  int
	}{
		"I want to refund my order":           {2, "refund order", 4},
		"please LIST all my orders":           {1, "list orders", 3},
		"send a message":                      {4, "send message", 1},
		"email for the customer":              {4, "email customer", 2},
		"createRefund":                        {2, "create refund createrefund", 2},
		"返金":                                  {5, "返金", 1},
		"which customers have no open orders": {1, "customers orders", 4},
	} {
		hits := wordrank.Rank(query, verbs())
		require.Len(t, hits, want.hits, query)
		require.Equal(t, want.first, hits[0].Doc, query)
		require.Equal(t, strings.Fields(want.words), hits[0].Words, query)
	}
	// To say a word again changes nothing.
	require.Equal(t, wordrank.Rank("refund message", verbs()), wordrank.Rank("refund, refund, refund and message", verbs()))
	for _, nothing := range []string{"", "the of and", "zebra", "???"} {
		require.Empty(t, wordrank.Rank(nothing, verbs()), nothing)
	}
	require.Empty(t, wordrank.Rank("order", nil))
}

func TestShareIsHowMuchOfTheQueryIsThere(t *testing.T) {
	t.Parallel()
	hits := wordrank.Rank("create refund", verbs())
	require.InDelta(t, 1, hits[0].Share, 1e-9)
	some := wordrank.Rank("create refund zebra", verbs())[0].Share
	require.Less(t, some, 1.0)
	require.Less(t, wordrank.Rank("create refund zebra giraffe", verbs())[0].Share, some)
}

func TestTextsOfOneScoreKeepTheirOrder(t *testing.T) {
	t.Parallel()
	docs := slices.Repeat([]wordrank.Doc{{Name: "order"}, {Name: "nothing"}}, 20)
	hits := wordrank.New(docs).Rank("order", 5)
	for i, hit := range hits {
		require.Equal(t, 2*i, hit.Doc)
	}
	require.Len(t, hits, 5)
	require.Empty(t, wordrank.New(docs).Rank("order", 0))
}

// many are the verbs of a large catalog.
func many(n int) (docs []wordrank.Doc) {
	things := strings.Fields("order refund invoice customer charge dispute payout account webhook file session ticket label branch release")
	does := strings.Fields("create get list update delete search cancel capture approve")
	for i := range n {
		thing, do := things[i%len(things)], does[i/len(things)%len(does)]
		docs = append(docs, wordrank.Doc{
			Name: fmt.Sprintf("provider%d:%s_%s_%d", i%7, do, thing, i),
			Text: fmt.Sprintf("This endpoint will %s the %s. It returns the %s with number %d and takes everything that such descriptions usually say about permissions.", do, thing, thing, i),
		})
	}
	return docs
}

func TestBestOfManyAreThoseOfAll(t *testing.T) {
	t.Parallel()
	x := wordrank.New(many(2000))
	for _, query := range []string{"refund 1001", "create the invoice of provider3", "number 77"} {
		all := x.Rank(query, 2000)
		require.Equal(t, all[:12], x.Rank(query, 12))
		require.True(t, slices.IsSortedFunc(all, func(a, b wordrank.Hit) int { return cmp.Compare(b.Score, a.Score) }), query)
	}
	require.Contains(t, x.Rank("refund 1001", 1)[0].Words, "1001")
}

func FuzzRank(f *testing.F) {
	f.Add("refund my order", "shop:create_refund", "Refunds an order.")
	f.Add("注文", "注文を返金", "คืนเงิน")
	f.Add("HTTPServerÄÖ\xff", "a__b--C", "\u0301\u0301")
	f.Add("aA", "0", "0") // the parts are words such as "the", the whole is not
	f.Fuzz(func(t *testing.T, query, name, text string) {
		for _, w := range wordrank.Words(query) {
			require.NotEmpty(t, w.Key)
			require.True(t, utf8.ValidString(w.Key) && len(w.Text) <= 64)
		}
		docs := []wordrank.Doc{{Name: name, Text: text}, {Name: query}, {Text: query + " " + text}}
		hits := wordrank.Rank(query, docs)
		require.Equal(t, hits, wordrank.Rank(query, docs))
		for _, hit := range hits {
			require.Positive(t, hit.Score)
			require.True(t, hit.Share >= 0 && hit.Share <= 1, "%v", hit.Share)
			require.NotEmpty(t, hit.Words)
		}
		if len(texts(query)) > 0 {
			require.True(t, slices.ContainsFunc(hits, func(h wordrank.Hit) bool { return h.Doc == 1 && h.Share > 0.99 }), "a text finds itself")
		}
	})
}

func BenchmarkRankOf5000(b *testing.B) {
	x := wordrank.New(many(5000))
	b.ReportMetric(float64(x.Bytes()), "index-bytes")
	b.ReportAllocs()
	for b.Loop() {
		x.Rank("I would like to cancel the order 4711 and get a refund to my card, please", 20)
	}
}

func BenchmarkNewOf5000(b *testing.B) {
	docs := many(5000)
	b.ReportAllocs()
	for b.Loop() {
		wordrank.New(docs)
	}
}
