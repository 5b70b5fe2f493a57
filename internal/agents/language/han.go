package language

import (
	"regexp"
	"strings"
	"unicode"
)

// chinese are signs and words that Japanese does not have: those of talk, and those that Japan writes
// otherwise.
var chinese = regexp.MustCompile(`[你您妳她们們这這吗嗎呢吧啊喔嘛哪么麼谁很给裡]` +
	`|[订单货发问题请谢钱账买卖东车电话语对开关门见还现进过运费时间长张师书帮办邮联线络网页证码错误该应让认识说讲读记许设试详调论评词访诉译财贵质购资贴赔赠转软轻输较达迟远连选银链销锁键阅难项顺须预领频额颜风飞馆验换从个为经题听认觉块带种样]` +
	`|[單發錢賣對會來國點體號學實說關賬]` +
	`|我[^慢流欲執国家々]|谢谢|謝謝|好的|是的|不是|没有|沒有|為什`)

// common are signs that both have, and of which Japanese has seldom two in a text without Kana.
const common = "的了是不也就"

// ofHan returns the language of a text in Han signs and perhaps Kana, or those that it may be in: Japanese
// names, addresses and short answers have no Kana.
func ofHan(text string) (code string, near []string) {
	kana := strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana) })
	is := chinese.MatchString(text)
	n := 0
	for _, r := range common {
		if strings.ContainsRune(text, r) {
			n++
		}
	}
	switch {
	case kana && !is:
		return "ja", nil
	case !kana && (is || n > 1):
		return "zh", nil
	}
	return "", []string{"zh", "ja"}
}
