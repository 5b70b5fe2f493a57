package providererror

import (
	"encoding/json"
	"strings"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/base/redact"
)

// place is where makers of APIs put a code or a message: names and positions from the top.
type place []any

// The places in which providers write what went wrong, the most telling first. Each is from the
// documentation of an API or a format that many follow.
//
//nolint:gochecknoglobals // immutable tables
var (
	messagePlaces = []place{
		{"error", "message"},     // Stripe, Google, OpenAI, Microsoft Graph
		{"error", "detail"},      // FastAPI behind a wrapper
		{"error", "description"}, // Razorpay
		{"message"},              // GitHub, Shopify, NestJS (also a list of texts)
		{"error_description"},    // OAuth 2.0 (RFC 6749, 5.2)
		{"error_message"},        // Google Maps
		{"errorMessage"},         // many in Java
		{"detail"},               // RFC 9457; FastAPI
		{"errors", 0, "message"}, // GraphQL, Cloudflare, Twilio SendGrid
		{"errors", 0, "detail"},  // JSON:API, Square
		{"errors", 0, "title"},   // JSON:API
		{"errors", 0},            // a list of texts
		{"detail", 0, "msg"},     // FastAPI's validation
		{0, "message"},           // Salesforce
		{"fault", "faultstring"}, // Apigee
		{"fault", "message"},     // SAP
		{"fault", "detail"},      // SOAP as JSON
		{"Fault", "faultstring"}, // SOAP as JSON
		{"Message"},              // AWS, ASP.NET
		{"title"},                // RFC 9457
		{"description"},          // Telegram
		{"msg"},                  // many
		{"reason"},               // Apple
		{"details"},              // Zendesk
		{"error", "errors", 0},   // a list within
		{"error"},                // Slack, and the sandbox
	}
	codePlaces = []place{
		{"error", "code"},
		{"errors", 0, "code"},
		{"error", "type"},
		{"error", "status"},
		{"code"},
		{"errorCode"},
		{"error_code"},
		{"fault", "code"},
		{"fault", "faultcode"},
		{"Fault", "faultcode"},
		{"fault", "detail", "errorcode"},
		{0, "errorCode"},
		{0, "code"},
		{"__type"}, // AWS
		{"Code"},
		{"name"}, // PayPal
		{"error"},
		{"type"}, // RFC 9457
	}
)

// maxItems is how many texts of a list become one message.
const maxItems = 5

// pick returns the code and the message of an answer; "" where it has none.
func pick(body json.RawMessage, m Masker) (code, message string) {
	for _, p := range messagePlaces {
		if message = line(m.MaskText(sentence(at(body, p))), maxMessage); message != "" && message != redact.Masked {
			break
		}
		message = ""
	}
	if message == "" {
		message = line(m.MaskText(byField(body)), maxMessage)
	}
	for _, p := range codePlaces {
		code = m.MaskText(word(at(body, p)))
		if code != "" && len(code) <= maxCode && code != redact.Masked {
			return code, message
		}
	}
	return "", message
}

func at(body json.RawMessage, p place) json.RawMessage {
	found, ok := exactjson.Lookup(body, p)
	if !ok {
		return nil
	}
	return found
}

// sentence returns a text, or the first texts of a list; "" for anything else.
func sentence(value json.RawMessage) string {
	if text := textOf(value); text != "" || len(value) == 0 || value[0] != '[' {
		return text
	}
	var list []string
	for i := range maxItems {
		item, ok := exactjson.Lookup(value, []any{i})
		if text := textOf(item); ok && text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// word returns a text without a space, or a number as it is written; "" for anything else.
func word(value json.RawMessage) string {
	if len(value) > 0 && (value[0] == '-' || '0' <= value[0] && value[0] <= '9') {
		return string(value)
	}
	text := textOf(value)
	if strings.ContainsFunc(text, steers) {
		return ""
	}
	return text
}

func textOf(value json.RawMessage) (text string) {
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// byField returns the first complaint of an object that has complaints by the name of the field, as
// Rails and Django write them: {"errors": {"email": ["is taken"]}}. At the top only lists of texts are
// complaints.
func byField(body json.RawMessage) string {
	for _, p := range []place{{"errors"}, {"error"}, {}} {
		tree, err := exactjson.Tree(at(body, p))
		if err != nil {
			continue
		}
		for _, m := range tree.Members {
			switch {
			case m.Value.Kind == exactjson.TextNode && len(p) > 0:
				return m.Name + ": " + m.Value.Text
			case m.Value.Kind == exactjson.ArrayNode:
				if text := sentence(m.Value.Raw); text != "" {
					return m.Name + ": " + text
				}
			}
		}
	}
	return ""
}
