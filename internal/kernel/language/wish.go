package language

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// spoken are names of languages, as speakers of many languages write them: the begin of a word is enough,
// so that German, germany's and germană are one. A name in a script without blanks may stand anywhere.
//
//nolint:gochecknoglobals,misspell // an immutable table of words of many languages
var spoken = map[string]string{
	"en":      "english englisch anglais inglés ingles inglese inglês engels engelsk engelska englanni inglise angļu anglų angielsk anglick angličtin angličtin anglešk englesk engleză englez angol ingiliz i̇ngiliz inggris anh anglès anglisht ensk kiingereza английск англійськ англиск енглеск αγγλικ אנגלית الإنجليزية انگلیسی انگریزی अंग्रेज़ी अंग्रेजी इंग्रजी ইংরেজি ஆங்கில ఆంగ్ల อังกฤษ 영어 英語 英语 英文 ინგლის անգլերեն",
	"de":      "german deutsch allemand alemán aleman tedesco alemão duits tysk tyska saksa vācu vokiečių niemieck německ nemeck nemšk njemačk немецк німецьк немск немачк nemačk german almanca alman jerman đức alemany gjermanisht þýsk kijerumani γερμανικ גרמנית الألمانية آلمانی जर्मन জার্মান เยอรมัน 독일어 ドイツ語 德语 德文 გერმან գերմաներեն",
	"fr":      "french französisch franzoesisch français francais francés frances francese francês frans fransk franska ranska prantsuse franču prancūzų francusk francouzsk francúzsk francosk francusk французск французьк френск француск franceză francez francia fransızca prancis pháp francès frëngjisht frönsk kifaransa γαλλικ צרפתית الفرنسية فرانسوی फ़्रेंच फ्रेंच ফরাসি ฝรั่งเศส 프랑스어 フランス語 法语 法文",
	"es":      "spanish spanisch espagnol español espanol castellano spagnolo espanhol spaans spansk spanska espanja hispaania spāņu ispanų hiszpańsk španělsk španielsk špansk španjolsk испанск іспанськ шпанск spaniolă spanyol ispanyolca tây castellà espanyol spanjisht spænsk kihispania ισπανικ ספרדית الإسبانية اسپانیایی स्पेनिश สเปน 스페인어 スペイン語 西班牙语",
	"it":      "italian italienisch italien italiano italiaans italiensk italienska italia itaalia itāļu italų włosk italsk taliansk italijansk talijansk итальянск італійськ италианск италијанск italiană olasz i̇talyanca italyanca ý italià italisht ítölsk kiitaliano ιταλικ איטלקית الإيطالية ایتالیایی 이탈리아어 イタリア語 意大利语",
	"pt":      "portuguese portugiesisch portugais portugués português portugues portoghese portugees portugisisk portugisiska portugali portugāļu portugalų portugalsk португальск португалск portugheză portugál portekizce portugis bồ portuguès πορτογαλικ פורטוגזית البرتغالية 포르투갈어 ポルトガル語 葡萄牙语",
	"nl":      "dutch niederländisch holländisch néerlandais holandés neerlandés olandese holandês nederlands hollandsk hollands nederländska hollanti holenderk niderlandzk nizozemsk holandsk голландск нідерландськ нидерландск холандск olandeză holland felemenkçe belanda hà ολλανδικ הולנדית الهولندية 네덜란드어 オランダ語 荷兰语",
	"sv":      "swedish schwedisch suédois sueco svedese zweeds svensk svenska ruotsi szwedzk švédsk шведск швед suedeză svéd isveççe 스웨덴어 スウェーデン語 瑞典语",
	"da":      "danish dänisch danois danés danese deens dansk danska tanska duńsk dánsk датск daneză dán 덴마크어 デンマーク語 丹麦语",
	"no":      "norwegian norwegisch norvégien noruego norvegese noors norsk norska norja norwesk norsk норвежск norvegiană norvég 노르웨이어 ノルウェー語 挪威语",
	"fi":      "finnish finnisch finnois finlandés finlandese fins finsk finska suomi suome fińsk finsk финск finlandeză finn 핀란드어 フィンランド語 芬兰语",
	"pl":      "polish polnisch polonais polaco polacco pools polsk polska puola polsk poľsk польск полск poloneză lengyel lehçe polonya 폴란드어 ポーランド語 波兰语",
	"cs":      "czech tschechisch tchèque checo ceco tsjechisch tjeckisk tjeckiska tšekki czesk česk český čeština чешск cehă cseh çekçe 체코어 チェコ語 捷克语",
	"ro":      "romanian rumänisch roumain rumano rumeno romeno roemeens rumänsk rumuńsk rumunsk румынск română romaneste românește román romence 루마니아어 罗马尼亚语",
	"hu":      "hungarian ungarisch hongrois húngaro hungaro ungherese hongaars ungersk węgiersk maďarsk венгерск maghiară magyar macarca 헝가리어 匈牙利语",
	"tr":      "turkish türkisch turc turco turks turkisk turkiska turkki tureck турецк турск turcă török türkçe turki τουρκικ טורקית التركية ترکی 터키어 トルコ語 土耳其语",
	"ru":      "russian russisch russe ruso russo russisk ryska venäjä rosyjsk rusk ruščin русск російськ rusă orosz rusça rusia nga ρωσικ רוסית الروسية روسی 러시아어 ロシア語 俄语 俄文 რუსულ ռուսերեն",
	"uk":      "ukrainian ukrainisch ukrainien ucraniano ucraino oekraïens ukrainsk ukraińsk ukrajinsk украинск українськ ucraineană ukrán ukraynaca 우크라이나어 ウクライナ語 乌克兰语",
	"el":      "greek griechisch grec griego greco grieks grekisk kreikka greck řeck греческ грецьк greacă görög yunanca ελληνικ 그리스어 ギリシャ語 希腊语",
	"h" + "e": "hebrew hebräisch hébreu hebreo ebraico иврит עברית العبرية 히브리어 ヘブライ語 希伯来语",
	"ar":      "arabic arabisch arabe árabe arabo arabisk arabiska arabia arabsk арабск arabă arab arapça αραβικ ערבית العربية عربی अरबी 아랍어 アラビア語 阿拉伯语",
	"fa":      "persian farsi persisch persan persa персидск فارسی",
	"hi":      "hindi हिंदी हिन्दी хинди",
	"bn":      "bengali bangla বাংলা",
	"th":      "thai thailändisch thaï tailandés ไทย",
	"vi":      "vietnamese vietnamesisch vietnamien vietnamita việt вьетнамск 베트남어 ベトナム語 越南语",
	"id":      "indonesian indonesisch indonésien indonesio indonesiano indonesia 인도네시아어 インドネシア語 印尼语",
	"ko":      "korean koreanisch coréen coreano koreaans koreansk корейск koreli korece 한국어 韓国語 韩语",
	"ja":      "japanese japanisch japonais japonés japones giapponese japonês japans japansk japanska japani japoński japońsk японск japonca 일본어 日本語 日语",
	"zh":      "chinese chinesisch chinois chino cinese chinês chinees kinesisk kinesiska kiina chińsk čínsk китайск chineză kínai çince 중국어 中国語 中文 汉语 普通话",
	"ka":      "georgian georgisch géorgien ქართულ",
	"ca":      "catalan katalanisch català catala catalán",
	"hr":      "croatian kroatisch croate croata hrvatsk хорватск",
	"sr":      "serbian serbisch serbe serbio serbo srpsk српск сербск",
	"bg":      "bulgarian bulgarisch bulgare búlgaro български болгарск",
	"sk":      "slovak slowakisch slovaque eslovaco slovensky slovensk slovenčin словацк",
	"sl":      "slovenian slovene slowenisch slovène slovensko slovenšč",
	"et":      "estonian estnisch estonien eesti эстонск",
	"lv":      "latvian lettisch letton latviešu latvisk латышск",
	"lt":      "lithuanian litauisch lituanien lietuvi литовск",
	"az":      "azerbaijani aserbaidschanisch azərbaycan азербайджанск",
	"tl":      "tagalog filipino",
	"sq":      "albanian albanisch albanais shqip албанск",
	"is":      "icelandic isländisch islandais íslensk",
	"sw":      "swahili kiswahili suaheli",
	"af":      "afrikaans",
	"be":      "belarusian belarussisch белорусск беларуск",
	"mk":      "macedonian mazedonisch македонск",
	"ur":      "urdu اردو",
	"mr":      "marathi मराठी",
	"ta":      "tamil தமிழ்",
	"te":      "telugu తెలుగు",
	"hy":      "armenian armenisch հայերեն",
}

// asking are the begins of words by which customers ask for a language.
//
//nolint:gochecknoglobals // an immutable table
var asking = strings.Fields(`answer reply respond write speak talk continue switch chat antwort schreib sprich sprech rede weiter répond repond écri ecri parl continu
	respond contest escrib habl contin rispond scriv parl respond escrev fale falar antwoord schrijf spreek praat svar skriv prata tala snakk snak tal vasta puhu kirjoita
	odpowi odpisz pisz mów mow rozmawia odpov píš piš mluv hovor odgovor piš govor răspunde raspunde scrie vorbi válaszol ír beszél cevap yanıt yaz konuş jawab balas
	trả viết nói ответ отвеч пиш говор відпов пиш розмовля отговор пиш говор одговор απάντη απαντ γράψ μίλα ענה תענה דבר תדבר כתוב أجب رد اكتب تحدث جواب پاسخ بنویس صحبت
	जवाब बात लिख উত্তর บ 대답 답변 말씀 말해 答えて 返事 話して 書いて 回答 回复 说 用 讲`)

// with are words beside the name of a language in a message that says nothing else.
//
//nolint:gochecknoglobals // an immutable table
var with = strings.Fields(`in auf en in em på en po na v w na în på no ja bitte please por favor s'il vous plaît plait te il per prosím proszę lütfen olarak dilinde snälla tak
	alstublieft graag пожалуйста по на будь ласка моля молим παρακαλώ στα בבקשה ב من فضلك بال tolong molim prosim palun lūdzu prašau dalam bahasa bằng tiếng में कृपया do vă rog kérem kiitos only nur solo now jetzt the het`)

// apart divides a text into its words.
func apart(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\''
	})
}

var clauses = regexp.MustCompile(`[.!?;\n。！？؟]+`)

// mostApart is how many words are between the one that asks and the name of the language.
const mostApart = 4

// Wish returns the language in which a customer asks to be answered: "please answer in German", "auf
// Deutsch bitte", "по-русски". ok is false where the text asks for none.
func Wish(text string) (l Language, ok bool) {
	if runes := []rune(text); len(runes) > mostRunes {
		text = string(runes[:mostRunes])
	}
	for _, clause := range clauses.Split(text, -1) {
		if code := wished(apart(clause)); code != "" {
			l, ok = named(code)
		}
	}
	return l, ok
}

func wished(words []string) string {
	code, at := "", -1
	for i, word := range words {
		if found := spokenBy(word); found != "" {
			code, at = found, i
		}
	}
	if code == "" {
		return ""
	}
	// "talk to your German colleague" asks for none: what stands before the name joins it to the wish.
	joined := at == 0 || slices.Contains(with, words[at-1]) || asks(words[at-1])
	for i, word := range words {
		if joined && i-at <= mostApart && at-i <= mostApart && asks(word) && !refuses(words) {
			return code
		}
	}
	rest := slices.Clone(words)
	rest = slices.DeleteFunc(rest, func(word string) bool { return spokenBy(word) == code || slices.Contains(with, word) })
	if len(rest) == 0 {
		return code
	}
	return ""
}

func asks(word string) bool {
	return slices.ContainsFunc(asking, func(begin string) bool { return begins(word, begin, len(word)) })
}

// refuses reports whether words say what is not wished, or ask about someone who speaks a language.
func refuses(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains([]string{"not", "don't", "cannot", "can't", "nicht", "kein", "pas", "no", "non", "não", "niet", "inte", "ikke", "не", "nie", "do", "does", "who"}, word)
	})
}

// languageName is a name of a language.
type languageName struct{ name, code string }

// byFirst are the names by their first letter, the longest first. Under 0 are those that stand anywhere in
// a word.
//
//nolint:gochecknoglobals // an immutable table
var byFirst = func() map[rune][]languageName {
	all := map[rune][]languageName{}
	for _, code := range slices.Sorted(maps.Keys(spoken)) {
		for name := range strings.FieldsSeq(spoken[code]) {
			first, _ := utf8.DecodeRuneInString(name)
			if isUnspaced(first) {
				first = 0
			}
			all[first] = append(all[first], languageName{name, code})
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b languageName) int { return len(b.name) - len(a.name) })
	}
	return all
}()

// spokenBy returns the language that a word names; "" for none.
func spokenBy(word string) string {
	first, _ := utf8.DecodeRuneInString(word)
	if isUnspaced(first) {
		first = 0
	}
	for _, n := range byFirst[first] {
		if begins(word, n.name, ending) {
			return n.code
		}
	}
	return ""
}

// isUnspaced reports whether a letter is of a script in which names stand within words.
func isUnspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Hangul, unicode.Arabic, unicode.Hebrew)
}

// ending is how many bytes the ending of a name of a language has.
const ending = 6

// begins reports whether a word is another one, perhaps with an ending of so many bytes: of a short one,
// it is the same. In scripts without blanks, it may stand within.
func begins(word, name string, ending int) bool {
	if first, _ := utf8.DecodeRuneInString(name); isUnspaced(first) {
		return strings.Contains(word, name)
	}
	const short = 3
	if utf8.RuneCountInString(name) <= short {
		return word == name
	}
	return strings.HasPrefix(word, name) && len(word)-len(name) <= ending
}
