package openapi

import (
	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/verb"
)

// Limits on the event types of one document.
const (
	maxEventTypes   = 200 // that are listed; GitHub's document has 250 webhooks
	maxEventName    = 200 // bytes
	maxEventSummary = 300 // bytes
)

// webhooks lists what the provider sends by itself, which OpenAPI 3.1 calls webhooks. No verb comes
// of them.
func (im *importer) webhooks() {
	list := field(im.doc.root, "webhooks")
	for _, name := range sortedKeys(list) {
		if !im.doc.spend(20) {
			return
		}
		if im.out.EventTypesTotal++; len(im.out.EventTypes) == maxEventTypes {
			continue
		}
		im.out.EventTypes = append(im.out.EventTypes, verb.EventType{
			Name: argschema.Shorten(name, maxEventName), Summary: argschema.Shorten(im.summaryOf(list[name]), maxEventSummary),
		})
	}
}

// summaryOf returns the first words of a webhook that say what it is about, "" for none.
func (im *importer) summaryOf(entry any) string {
	item, err := im.doc.object(entry)
	if err != nil || !im.doc.spend(len(item)) {
		return ""
	}
	for _, key := range sortedKeys(item) {
		operation, _ := item[key].(map[string]any)
		if !isMethod(key) || operation == nil {
			continue
		}
		for _, member := range []string{"summary", "description"} {
			if words := text(operation, member); words != "" {
				return words
			}
		}
	}
	return text(item, "summary")
}

// remark says why a document without any operation came to nothing.
func (im *importer) remark() {
	if im.seen > 0 || len(im.out.Rejected) > 0 {
		return
	}
	why := "the document has no operation that can be called"
	if im.out.EventTypesTotal > 0 {
		why += ", only webhooks"
	}
	im.reject("paths", why)
}
