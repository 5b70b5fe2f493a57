package providererror_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/redact"
	"agentruntime/internal/provider/providererror"
)

// masker masks as an importer without a schema does.
type masker struct{}

func (masker) MaskResult(result json.RawMessage) json.RawMessage {
	out, _ := redact.NewMasker(nil).Mask(result)
	return out
}

func (masker) MaskText(text string) string { return redact.Text(text) }

func of(media, body string) *providererror.Error {
	return providererror.Of(providererror.Answer{Status: 400, Media: media, Body: []byte(body), Whole: true}, masker{})
}

// The bodies are those of the makers' own documentation.
func TestCodeAndMessageAreFoundWhereProvidersWriteThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, code, message string }{
		"stripe":        {`{"error":{"code":"resource_missing","doc_url":"https://x","message":"No such charge: 'ch_1'","param":"id","type":"invalid_request_error"}}`, "resource_missing", "No such charge: 'ch_1'"},
		"google":        {`{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}`, "404", "Requested entity was not found."},
		"github":        {`{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}]}`, "missing_field", "Validation Failed"},
		"oauth":         {`{"error":"invalid_grant","error_description":"The code has expired."}`, "invalid_grant", "The code has expired."},
		"problem":       {`{"type":"https://example.com/probs/out-of-credit","title":"You do not have enough credit.","detail":"Your current balance is 30, but that costs 50."}`, "https://example.com/probs/out-of-credit", "Your current balance is 30, but that costs 50."},
		"title only":    {`{"type":"about:blank","title":"Not Found","status":404}`, "about:blank", "Not Found"},
		"graphql":       {`{"errors":[{"message":"Cannot query field","locations":[]}]}`, "", "Cannot query field"},
		"json:api":      {`{"errors":[{"status":"422","code":"E12","title":"Invalid Attribute","detail":"First name must contain at least two characters."}]}`, "E12", "First name must contain at least two characters."},
		"salesforce":    {`[{"message":"Required fields are missing: [Name]","errorCode":"REQUIRED_FIELD_MISSING"}]`, "REQUIRED_FIELD_MISSING", "Required fields are missing: [Name]"},
		"paypal":        {`{"name":"UNPROCESSABLE_ENTITY","message":"The requested action could not be performed.","debug_id":"90957fca61718"}`, "UNPROCESSABLE_ENTITY", "The requested action could not be performed."},
		"aws json":      {`{"__type":"ResourceNotFoundException","message":"Requested resource not found"}`, "ResourceNotFoundException", "Requested resource not found"},
		"aws other":     {`{"Code":"Throttling","Message":"Rate exceeded"}`, "Throttling", "Rate exceeded"},
		"nest":          {`{"statusCode":400,"message":["a must be a number","b is empty"],"error":"Bad Request"}`, "", "a must be a number; b is empty"},
		"spring":        {`{"status":404,"error":"Not Found","message":"No order 5","path":"/orders/5"}`, "", "No order 5"},
		"fastapi":       {`{"detail":[{"loc":["body","amount"],"msg":"value is not a valid integer","type":"type_error.integer"}]}`, "", "value is not a valid integer"},
		"apigee":        {`{"fault":{"faultstring":"Rate limit quota violation","detail":{"errorcode":"policies.ratelimit.QuotaViolation"}}}`, "policies.ratelimit.QuotaViolation", "Rate limit quota violation"},
		"rails":         {`{"errors":{"email":["is already taken","is too short"]}}`, "", "email: is already taken; is too short"},
		"django":        {`{"email":["This field is required."]}`, "", "email: This field is required."},
		"a text":        {`{"error":"Non-pending order cannot be cancelled."}`, "", "Non-pending order cannot be cancelled."},
		"a word":        {`{"ok":false,"error":"channel_not_found"}`, "channel_not_found", "channel_not_found"},
		"telegram":      {`{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, "400", "Bad Request: chat not found"},
		"a list":        {`{"errors":["no such order","try again"]}`, "", "no such order"},
		"nothing":       {`{"id":"x","name_of":"y"}`, "", ""},
		"a number":      {`5`, "", ""},
		"null":          {`null`, "", ""},
		"an empty list": {`{"errors":[]}`, "", ""},
		"other types":   {`{"error":{"message":{"deep":true},"code":[1]},"message":7}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := of("application/json", c.body)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, c.message, e.Message)
			require.JSONEq(t, c.body, string(e.Body))
			require.False(t, e.Truncated)
		})
	}
}

func TestAnswersThatAreNoJSONAreShownAsText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		media, body          string
		code, message, shown string
		truncated            bool
	}{
		"text":           {"text/plain", "No such order.\nAsk the shop.", "", "No such order.", `"No such order.\nAsk the shop."`, false},
		"JSON as text":   {"text/html; charset=utf-8", `{"message":"no"}`, "", "no", `{"message":"no"}`, false},
		"a page":         {"text/html", "<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>a{}</style></head><body><SCRIPT>alert(1)</SCRIPT><h1>Bad &amp; sad</h1><p>nginx</p></body></html>", "", "502 Bad Gateway", `"Bad \u0026 sad nginx"`, true},
		"a bare heading": {"text/html", "<html><h1>Gone <b>away</b></h1></html>", "", "Gone away", `"Gone away"`, true},
		"no end tags":    {"text/html", "<html><script>let a", "", "", `""`, true},
		"s3": {
			"application/xml", `<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>The key does not exist.</Message></Error>`, "NoSuchKey", "The key does not exist.",
			`"\u003c?xml version=\"1.0\"?\u003e\u003cError\u003e\u003cCode\u003eNoSuchKey\u003c/Code\u003e\u003cMessage\u003eThe key does not exist.\u003c/Message\u003e\u003c/Error\u003e"`, false,
		},
		"soap": {
			"text/xml", `<s:Envelope xmlns:s="x"><s:Body><s:Fault><faultcode>s:Client</faultcode><faultstring>Bad order</faultstring></s:Fault></s:Body></s:Envelope>`, "s:Client", "Bad order",
			`"<s:Envelope xmlns:s=\"x\"><s:Body><s:Fault><faultcode>s:Client</faultcode><faultstring>Bad order</faultstring></s:Fault></s:Body></s:Envelope>"`, false,
		},
		"nothing":     {"", "  ", "", "", `null`, false},
		"broken JSON": {"application/json", `{"password":"hunter2`, "", "", `null`, true},
		"half a list": {"text/plain", `["hunter2`, "", "", `null`, true},
		"bytes":       {"image/png", "\x89PNG\xff", "", "", `null`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := of(c.media, c.body)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, c.message, e.Message)
			require.JSONEq(t, c.shown, string(e.Body))
			require.Equal(t, c.truncated, e.Truncated)
		})
	}
}

func TestSecretsAreMaskedInEveryPart(t *testing.T) {
	t.Parallel()
	token := "sk_live_" + strings.Repeat("a1B", 8)
	for name, c := range map[string]struct{ media, body string }{
		"by name":         {"application/json", `{"message":"no","password":"hunter22"}`},
		"in a message":    {"application/json", `{"message":"the password: hunter22 is wrong"}`},
		"a token":         {"application/json", `{"error":{"message":"bad key ` + token + `","code":"` + token + `"}}`},
		"in a text":       {"text/plain", "your password=hunter22 is wrong, " + token},
		"in a page":       {"text/html", "<html><title>password: hunter22</title>" + token + "</html>"},
		"in XML":          {"text/xml", "<e><code>" + token + "</code><message>password: hunter22</message></e>"},
		"in a large body": {"application/json", `{"a":"` + strings.Repeat("x", 3000) + `","password":"hunter22","b":"` + strings.Repeat("x", 3000) + `"}`},
		"half of a text":  {"text/plain", strings.Repeat("y ", 2020) + token},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(of(c.media, c.body))
			require.NoError(t, err)
			require.NotContains(t, string(raw), "hunter22")
			require.NotContains(t, string(raw), token[:16])
		})
	}
}

func TestErrorHasAtMostFourKilobytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ media, body string }{
		"an object":    {"application/json", `{"message":"` + strings.Repeat("ä", 5000) + `"}`},
		"many members": {"application/json", `{"a":[` + strings.Repeat(`"é",`, 5000) + `1]}`},
		"a text":       {"text/plain", strings.Repeat("漢字", 5000)},
		"escapes":      {"text/plain", strings.Repeat("\x01\"\\", 5000)},
		"a page":       {"text/html", "<html>" + strings.Repeat("<p>é</p>", 20000)},
		"a huge one":   {"application/json", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`},
		"just over":    {"application/json", `{"a":"` + strings.Repeat("x", 4040) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := of(c.media, c.body)
			raw, err := json.Marshal(e)
			require.NoError(t, err)
			require.True(t, e.Truncated)
			var text *string
			require.NoError(t, json.Unmarshal(e.Body, &text))
			if text != nil {
				require.True(t, utf8.ValidString(*text))
				require.NotContains(t, *text, "\uFFFD")
			}
			require.LessOrEqual(t, len(raw), providererror.MaxBytes)
		})
	}
	e := of("application/json", `{"a":"`+strings.Repeat("x", 3900)+`"}`)
	require.False(t, e.Truncated, "what fits is whole")
}

func TestLineIsOneLineWithoutCharactersThatSteer(t *testing.T) {
	t.Parallel()
	e := of("application/json", `{"message":"a\u001b[31m\nb\u202ec\u2028d\u0000e "}`)
	require.Equal(t, "a [31m b c d e", e.Message)
	require.Equal(t, "a [31m…", e.Line(len("a [31m…")))
	require.Equal(t, "ää…", of("application/json", `{"message":"ääääää"}`).Line(8))
	require.Empty(t, (*providererror.Error)(nil).Line(10))
	require.Equal(t, "E1", of("application/json", `{"code":"E1"}`).Line(10), "the code, where there is no message")
}

func TestIDAndWaitOfTheProviderAreKept(t *testing.T) {
	t.Parallel()
	a := providererror.Answer{Status: 503, RetryAfter: 1500 * time.Millisecond, RequestID: "req_1", Whole: true}
	e := providererror.Of(a, masker{})
	raw, err := json.Marshal(e)
	require.NoError(t, err)
	require.JSONEq(t, `{"status":503,"code":"","message":"","body":null,"retry_after_ms":1500,"request_id":"req_1"}`, string(raw))
	for _, id := range []string{"two words", "line\nbreak", "ümlaut", strings.Repeat("x", 129)} {
		a.RequestID = id
		require.Empty(t, providererror.Of(a, masker{}).RequestID)
	}
}

func TestBriefLeavesALargeBodyOut(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"status":400,"code":"","message":"no","body":{"message":"no"}}`, string(of("application/json", `{"message":"no"}`).Brief()))
	brief := of("application/json", `{"message":"no","more":"`+strings.Repeat("x", 1<<10)+`"}`).Brief()
	require.JSONEq(t, `{"status":400,"code":"","message":"no","body":null,"truncated":true}`, string(brief))
	require.Nil(t, (*providererror.Error)(nil).Brief())
}
