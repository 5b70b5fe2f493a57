package agentloop

import "regexp"

// wantsPerson has the words by which customers ask for a person, in English, German, French and
// Spanish. In other languages, and in other words, the model decides.
var wantsPerson = regexp.MustCompile(`(?i)\b(speak|talk|chat) (to|with) (a|an|some|your|the)?\s*(real |live |human )?(human|person|some(one|body)|agent|manager|colleague|representative)\b` +
	`|\breal (human|person)\b|\bhuman being\b|\bhuman agent\b` +
	`|\bmit (einem|einer|jemandem|eurem|ihrem)\s*(echten |richtigen )?(menschen|person|mitarbeiter(in)?|kollegen|berater(in)?)?\s*(sprechen|reden)\b` +
	`|\bparler (à|a|avec) (un|une|quelqu'un|votre)\s*(vrai |vraie )?(humain|personne|conseiller|conseillère|agent)?` +
	`|\bhablar con (un|una|alguien|su)\s*(humano|persona|agente|asesor|asesora)?`)

// WantsPerson reports whether a customer asks for a person.
func WantsPerson(message string) bool { return wantsPerson.MatchString(message) }
