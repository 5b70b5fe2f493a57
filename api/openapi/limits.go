package main

import "gopkg.in/yaml.v3"

// rateHeaders are the headers that every response has, by the names of their components.
func rateHeaders() [][2]string {
	return [][2]string{
		{"RateLimit", "RateLimit"},
		{"RateLimit-Policy", "RateLimitPolicy"},
		{"X-RateLimit-Limit", "XRateLimitLimit"},
		{"X-RateLimit-Remaining", "XRateLimitRemaining"},
		{"X-RateLimit-Reset", "XRateLimitReset"},
	}
}

// unlimited is the tag of the operations that are not counted and never refused.
const unlimited = "Health"

// addLimits adds what all operations have in common: the headers with the state of the rate
// limits, and the answer 429 where the operation names none itself. The parts need not repeat
// it. It does nothing where the root does not describe that answer.
func addLimits(root, paths *yaml.Node) {
	responses := get(get(root, "components"), "responses")
	if get(responses, "RateLimited") == nil {
		return
	}
	addHeaders(responses)
	for i := 1; i < len(paths.Content); i += 2 {
		item := paths.Content[i]
		for k := 1; k < len(item.Content); k += 2 {
			own := get(item.Content[k], "responses")
			tags := get(item.Content[k], "tags")
			if own == nil || tags == nil {
				continue
			}
			if tags.Content[0].Value == unlimited {
				continue
			}
			addHeaders(own)
			if get(own, "429") == nil {
				insertResponse(own, "429", reference("responses", "RateLimited"))
			}
		}
	}
}

// addHeaders adds the headers to each response that is described here and not elsewhere.
func addHeaders(responses *yaml.Node) {
	for i := 1; i < len(responses.Content); i += 2 {
		headers := get(responses.Content[i], "headers")
		if headers == nil {
			continue
		}
		for _, h := range rateHeaders() {
			headers.Content = append(headers.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: h[0]}, reference("headers", h[1]))
		}
	}
}

// insertResponse keeps the responses in the order of their statuses.
func insertResponse(responses *yaml.Node, status string, to *yaml.Node) {
	at := 0
	for at < len(responses.Content) && responses.Content[at].Value < status {
		at += 2
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: status}
	responses.Content = append(responses.Content[:at], append([]*yaml.Node{key, to}, responses.Content[at:]...)...)
}

func reference(section, name string) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Value: "$ref"},
		{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: "#/components/" + section + "/" + name},
	}}
}
