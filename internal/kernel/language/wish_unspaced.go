package language

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unspaced is how customers ask for a language where no blanks divide words, or names have their particles
// at them. A clause that refused matches asks for none.
type unspaced struct{ asks, refused *regexp.Regexp }

// What asks in Chinese, Japanese, Korean and Thai. NAME stands for the names of languages.
//
//nolint:gochecknoglobals // immutable tables
var (
	inHan        = namesOf(unicode.Han, unicode.Hiragana, unicode.Katakana)
	asksUnspaced = []unspaced{
		{ // Chinese
			naming(`(?:用|以|说|說|讲|講|使用)(?:简体|繁体|簡體|繁體)?NAME(?:来|來|跟我|和我|给我|給我|为我|為我|与我|與我|对我|對我)*(?:回答|回复|回覆|答复|答覆|说|說|讲|講|写|寫|交流|沟通|溝通|聊|解释|解釋|告诉|告訴)`, inHan),
			regexp.MustCompile(`(?:回答|回复|回覆|答复|答覆|说|說|讲|講|写|寫|告诉|告訴)[了过過]|不会|不會|不懂|没|沒|不要|别用|別用`),
		},
		{
			naming(`(?:^|请|請|麻烦|麻煩|可以|能|改|换|換|转|轉).{0,12}?(?:用|说|說|讲|講|成|到|以)(?:简体|繁体|簡體|繁體)?NAME(?:吧|好吗|好嗎|吗|嗎|可以吗|可以嗎|谢谢|謝謝)*\s*$`, inHan),
			regexp.MustCompile(`不会|不會|不懂|没|沒|不要|别用|別用|我在`),
		},
		{ // Japanese
			naming(`NAME(?:で|にて)[^で]{0,24}?(?:答え|回答|返事|返信|返答|話し|話せ|書い|書き|お願い|おねがい|対応|説明)`, inHan),
			regexp.MustCompile(`た$|てあ|てい|され|ません|ない`),
		},
		{naming(`^(?:请|請|用)*NAME(?:で|吧|谢谢|謝謝)?$`, inHan), nil},
		{ // Korean
			naming(`NAME로\s?.{0,12}?(?:대답|답변|답장|답해|말씀|말해|이야기|써|적어|부탁|설명해|해\s?주)`, namesOf(unicode.Hangul)),
			regexp.MustCompile(`받|했|었|았|왔|못|안 `),
		},
		{naming(`^NAME(?:로|로요)?$`, namesOf(unicode.Hangul)), nil},
		{ // Thai
			naming(`(?:ตอบ|พูด|เขียน|คุย|สนทนา).{0,60}?ภาษาNAME`, namesOf(unicode.Thai)),
			regexp.MustCompile(`ไม่`),
		},
		{naming(`^(?:ขอ)?(?:เป็น)?ภาษาNAME(?:ครับ|ค่ะ|นะ)*$`, namesOf(unicode.Thai)), nil},
	}
)

// exactly are the codes of names in these scripts.
//
//nolint:gochecknoglobals // an immutable table
var exactly = namesOf(unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)

// namesOf returns the names of languages in scripts with the codes of these.
func namesOf(scripts ...*unicode.RangeTable) map[string]string {
	all := map[string]string{}
	for code, names := range spoken {
		for name := range strings.FieldsSeq(names) {
			if first, _ := utf8.DecodeRuneInString(name); unicode.In(first, scripts...) {
				all[name] = code
			}
		}
	}
	return all
}

// naming returns a pattern whose group NAME is any of the names.
func naming(pattern string, names map[string]string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "NAME", "("+strings.Join(slices.Sorted(maps.Keys(names)), "|")+")"))
}

// wishedUnspaced is wished in these scripts.
func wishedUnspaced(clause string) string {
	clause = strings.TrimSpace(clause)
	if !strings.ContainsFunc(clause, func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hangul, unicode.Thai) }) {
		return "" // each name has one of these
	}
	for _, u := range asksUnspaced {
		if found := u.asks.FindStringSubmatch(clause); found != nil && (u.refused == nil || !u.refused.MatchString(clause)) {
			return exactly[found[1]]
		}
	}
	return ""
}
