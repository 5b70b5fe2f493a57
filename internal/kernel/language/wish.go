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
	"en":      "english englisch anglais inglés ingles inglese inglês engels engelsk engelska englanni inglise angļu anglų angielsk anglick angličtin angličtin anglešk englesk engleză englez angol ingiliz i̇ngiliz inggris anh anglès anglisht ensk kiingereza английск англійськ англиск енглеск αγγλικ אנגלית الإنجليزية انگلیسی انگریزی अंग्रेज़ी अंग्रेजी इंग्रजी ইংরেজি ஆங்கில ఆంగ్ల อังกฤษ 영어 英語 英语 英文 ინგლის անգլերեն englanniksi englantia англійсько",
	"de":      "german deutsch allemand alemán aleman tedesco alemão duits tysk tyska saksa vācu vokiečių niemieck německ nemeck nemšk njemačk немецк німецьк немск немачк nemačk german almanca alman jerman đức alemany gjermanisht þýsk kijerumani γερμανικ גרמנית الألمانية آلمانی जर्मन জার্মান เยอรมัน 독일어 ドイツ語 德语 德文 გერმან գերմաներեն saksaksi saksaa német",
	"fr":      "french französisch franzoesisch français francais francés frances francese francês frans fransk franska ranska prantsuse franču prancūzų francusk francouzsk francúzsk francosk francusk французск французьк френск француск franceză francez francia fransızca prancis pháp francès frëngjisht frönsk kifaransa γαλλικ צרפתית الفرنسية فرانسوی फ़्रेंच फ्रेंच ফরাসি ฝรั่งเศส 프랑스어 フランス語 法语 法文 ranskaksi ranskaa",
	"es":      "spanish spanisch espagnol español espanol castellano spagnolo espanhol spaans spansk spanska espanja hispaania spāņu ispanų hiszpańsk španělsk španielsk špansk španjolsk испанск іспанськ шпанск spaniolă spanyol ispanyolca tây castellà espanyol spanjisht spænsk kihispania ισπανικ ספרדית الإسبانية اسپانیایی स्पेनिश สเปน 스페인어 スペイン語 西班牙语 espanjaksi espanjaa",
	"it":      "italian italienisch italien italiano italiaans italiensk italienska italia itaalia itāļu italų włosk italsk taliansk italijansk talijansk итальянск італійськ италианск италијанск italiană olasz i̇talyanca italyanca ý italià italisht ítölsk kiitaliano ιταλικ איטלקית الإيطالية ایتالیایی 이탈리아어 イタリア語 意大利语 italiaksi italiaa",
	"pt":      "portuguese portugiesisch portugais portugués português portugues portoghese portugees portugisisk portugisiska portugali portugāļu portugalų portugalsk португальск португалск portugheză portugál portekizce portugis bồ portuguès πορτογαλικ פורטוגזית البرتغالية 포르투갈어 ポルトガル語 葡萄牙语 portugaliksi portugalia",
	"nl":      "dutch niederländisch holländisch néerlandais holandés neerlandés olandese holandês nederlands hollandsk hollands nederländska hollanti holenderk niderlandzk nizozemsk holandsk голландск нідерландськ нидерландск холандск olandeză holland felemenkçe belanda hà ολλανδικ הולנדית الهولندية 네덜란드어 オランダ語 荷兰语 hollanniksi hollantia",
	"sv":      "swedish schwedisch suédois sueco svedese zweeds svensk svenska ruotsi szwedzk švédsk шведск швед suedeză svéd isveççe 스웨덴어 スウェーデン語 瑞典语 ruotsiksi ruotsia",
	"da":      "danish dänisch danois danés danese deens dansk danska tanska duńsk dánsk датск daneză dán 덴마크어 デンマーク語 丹麦语 tanskaksi tanskaa",
	"no":      "norwegian norwegisch norvégien noruego norvegese noors norsk norska norja norwesk norsk норвежск norvegiană norvég 노르웨이어 ノルウェー語 挪威语 norjaksi norjaa",
	"fi":      "finnish finnisch finnois finlandés finlandese fins finsk finska suomi suome fińsk finsk финск finlandeză finn 핀란드어 フィンランド語 芬兰语 suomeksi suomea",
	"pl":      "polish polnisch polonais polaco polacco pools polsk polska puola polsk poľsk польск полск poloneză lengyel lehçe polonya 폴란드어 ポーランド語 波兰语 puolaksi puolaa",
	"cs":      "czech tschechisch tchèque checo ceco tsjechisch tjeckisk tjeckiska tšekki czesk česk český čeština чешск cehă cseh çekçe 체코어 チェコ語 捷克语",
	"ro":      "romanian rumänisch roumain rumano rumeno romeno roemeens rumänsk rumuńsk rumunsk румынск română romaneste românește román romence 루마니아어 罗马尼亚语",
	"hu":      "hungarian ungarisch hongrois húngaro hungaro ungherese hongaars ungersk węgiersk maďarsk венгерск maghiară magyar macarca 헝가리어 匈牙利语",
	"tr":      "turkish türkisch turc turco turks turkisk turkiska turkki tureck турецк турск turcă török türkçe turki τουρκικ טורקית التركية ترکی 터키어 トルコ語 土耳其语 turkiksi turkkia",
	"ru":      "russian russisch russe ruso russo russisk ryska venäjä rosyjsk rusk ruščin русск російськ rusă orosz rusça rusia nga ρωσικ רוסית الروسية روسی 러시아어 ロシア語 俄语 俄文 რუსულ ռուսերեն venäjäksi venäjää",
	"uk":      "ukrainian ukrainisch ukrainien ucraniano ucraino oekraïens ukrainsk ukraińsk ukrajinsk украинск українськ ucraineană ukrán ukraynaca 우크라이나어 ウクライナ語 乌克兰语 українсько",
	"el":      "greek griechisch grec griego greco grieks grekisk kreikka greck řeck греческ грецьк greacă görög yunanca ελληνικ 그리스어 ギリシャ語 希腊语 kreikaksi kreikkaa",
	"h" + "e": "hebrew hebräisch hébreu hebreo ebraico иврит עברית العبرية 히브리어 ヘブライ語 希伯来语",
	"ar":      "arabic arabisch arabe árabe arabo arabisk arabiska arabia arabsk арабск arabă arab arapça αραβικ ערבית العربية عربی अरबी 아랍어 アラビア語 阿拉伯语 arabiaksi arabiaa",
	"fa":      "persian farsi persisch persan persa персидск فارسی",
	"hi":      "hindi हिंदी हिन्दी хинди",
	"bn":      "bengali bangla বাংলা",
	"th":      "thai thailändisch thaï tailandés ไทย",
	"vi":      "vietnamese vietnamesisch vietnamien vietnamita việt вьетнамск 베트남어 ベトナム語 越南语",
	"id":      "indonesian indonesisch indonésien indonesio indonesiano indonesia 인도네시아어 インドネシア語 印尼语",
	"ko":      "korean koreanisch coréen coreano koreaans koreansk корейск koreli korece 한국어 韓国語 韩语 koreaksi koreaa",
	"ja":      "japanese japanisch japonais japonés japones giapponese japonês japans japansk japanska japani japoński japońsk японск japonca 일본어 日本語 日语 japaniksi japania",
	"zh":      "chinese chinesisch chinois chino cinese chinês chinees kinesisk kinesiska kiina chińsk čínsk китайск chineză kínai çince 중국어 中国語 中文 汉语 普通话 kiinaksi kiinaa",
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

// places are countries, and people of them, whose names begin as that of a language does. The longest
// name decides.
//
//nolint:gochecknoglobals,misspell // an immutable table of words of many languages
var places = strings.Fields(`germany germania germanija germaniya deutschland duitsland tyskland alemania alemanha almanya deutscher deutsche deutschen deutsches deutschem německo německa německu nemecko nemecka nemecku
	njemačka njemačke njemačkoj njemačku nemačka nemačke nemačkoj nemačku немачка немачке немачкој немачку saksa saksassa saksaan saksasta þýskaland जर्मनी জার্মানি
	englanti englannin englantiin englannissa englannista engleska engleske engleskoj englesku engelland england angola francia franciaország ranskaan ranskassa ranskasta ranska
	francuska francuske francuskoj francusku француска француске француској француску espanja espanjaan espanjassa španjolska španjolske španjolskoj španjolsku
	italia italiaan italiassa italiasta itália itálie itálii italija italiji italy italie portugalija portugali portugaliin portugal hollanti hollantiin hollannissa holland hollandia belanda
	ruotsi ruotsiin ruotsissa norja norjaan norjassa tanska tanskaan tanskassa danska danske danskoj dansku suomi suomeen suomessa suomesta finnland finnország puola puolaan puolassa polska poljska polonya
	česko česka česku českou českej čechy tšekki tšekkiin turcia turkije turkiet turkije turkki turkkiin turkissa turki turska turske turskoj törökország rusia rusija rusije rusiji rusku ruska
	venäjä venäjälle venäjällä oroszország grecia grécia greciei grčka kreikka kreikkaan kreikassa görögország arabia arabien arabie arabii arábia arabistan thailand thailande thaïlande thailandia thaiföld
	hindistan bangladesh indonesia indonesien indonesië indonésie indonézia japani japaniin japanissa kiina kiinaan kiinassa korea lengyelország slovensko slovenska slovensku slovenskem slovakia slovakija
	hrvatska hrvatske hrvatskoj hrvatsku srpska srpske српска српске eesti eestis lietuva lietuvoje afrika shqipëria shqipëri azərbaycanda spanyolország olaszország svédország dánország albanais
	jerman inggris prancis spanyol portugis đức pháp anh ý nga tây bồ hà`)

// beside are words that make a language of a name that a country has too: "bahasa Indonesia".
//
//nolint:gochecknoglobals // an immutable table
var beside = strings.Fields(`bahasa tiếng på kielellä kielelle keeles keelt język języku jezik jeziku jazyk jazyce language sprache langue lingua língua idioma taal språk språket sprog език језик язык мова`)

// asking are the begins of words by which customers ask for a language, in languages with blanks.
//
//nolint:gochecknoglobals // an immutable table
var asking = strings.Fields(`answer reply respond write speak talk use continue switch wechsel chat antworte beantworte schreib sprich sprech rede weiter répond repond écri ecri parl continu passons
	respond contest escrib habl contin seguir sigamos rispond scriv parl passa escrev fale falar antwoord schrijf schrijven spreek spreken praat praten svar skriv prata tala snakk snak tal vasta puhu kirjoita kirjoitta
	odpowi odpowia odpisz pisz pisać mów mówić mówcie rozmawia odpov píš piš píšte pište napiš napište psát pisati pišite piši mluv hovor odgovor govor răspunde raspunde scrie vorbi
	válaszol ír írj írjon írjál írna beszél cevap yanıt yaz yazar yazın yazab konuş jawab balas tulis pakai gunakan trả viết nói ответь ответит отвеч пиши писать говор відпов пиші писати розмовля отговор пишете
	одговор пишите απάντη απαντ γράψ γράφ μίλα μιλά ענה תענה ענו דבר תדבר כתוב כתבו أجب أجيب رد اكتب اكتبوا تحدث جواب پاسخ بنویس صحبت जवाब बात लिखि लिखें लिखो উত্তর`)

// reports are words that begin as one that asks does, and tell what people do or did. What
// ends with a star is the begin of words.
//
//nolint:gochecknoglobals // an immutable table
var reports = strings.Fields(`answered answers replied replies responded responds speaks writes talks talked continued continues switched switches chatted antwortet antwortete antworteten spricht schreibt redet
	weitere weiteren weiterer répondu répondue écrit écrite écrits parlé parlait parlent respondió respondieron respondido contestó contestaron contestado habló hablan hablaron hablo escribió escribieron escribo
	respondeu responderam escreveu escreveram falaram respondido parlato parlano parlo scritto antwoordde spreekt schrijft svarade svarede svarte svarer svarar skriver talar pratar snakker puhuu puhun puhuvat
	odpowiedź odpowiedzi odpowiedzieli odpowiada odpověď odpověděl* mluví mluvím hovorí odgovor odgovorio odgovorili govorim отвечает отвечал* ответил* говорит говорят говорил* говорю відповіли відповів
	відповідь отговор отговориха одговор beszél beszélek válaszol válaszolt* konuşuyor* konuşmu* konuşur konuştu* yazıyor* yazıldı yazarım`)

// either are forms of verbs that tell or ask: they ask at the begin, and after words of likely.
//
//nolint:gochecknoglobals // immutable tables
var (
	either = strings.Fields("habla escribe responde contesta fala escreve parla parle scrie răspunde vorbește говорить")
	likely = strings.Fields("por favor porfavor que y e et me nos le lhe mi ci hola olá oi ciao salut bonjour ahora agora adesso maintenant sempre siempre toujours solo só te rog vă plaît plait prego давайте можно можете можемо хочу хотел хотела")
)

// before are words between which and the name of a language only the word "language" stands, and after
// those that follow the name at once.
//
//nolint:gochecknoglobals // immutable tables
var (
	before   = strings.Fields("in în auf en em på po na v w ve ni در به auf в на по στα dalam bằng bil kwa në á i")
	after    = strings.Fields("में मे kielellä kielelle keeles keelt nyelven olarak dilinde")
	articles = strings.Fields("the der die das den dem la le el il lo o a l")
	// adverbs are endings of names of languages that need no other word: "suomeksi", "magyarul", "anglicky".
	adverbs = strings.Fields("ksi ul ül ca ce ça çe cky sky ky ською цькою iškai iski ește")
	turning = strings.Fields("switch wechs passons passez passa skift przejd přejd перейд перейти")
	towards = strings.Fields("to zu à a al ao til na")
	// infinitives stand after the name of a language: "Englisch sprechen".
	infinitives = strings.Fields("sprechen reden schreiben antworten praten spreken schrijven antwoorden")
)

// with are words beside the name of a language in a message that says nothing else.
//
//nolint:gochecknoglobals // an immutable table
var with = strings.Fields(`in auf en in em på en po na v w en na în på no ja bitte please por favor favore s'il vous plaît plait te il per prosím proszę lütfen olarak dilinde snälla tak
	alstublieft graag пожалуйста по на будь ласка моля молим παρακαλώ στα בבקשה ب من فضلك بال tolong molim prosim palun lūdzu prašau dalam bahasa bằng tiếng में कृपया do vă rog kérem kiitos only nur solo now jetzt the het
	thanks thank you danke merci gracias grazie obrigado obrigada dank bedankt tack dzięki dziękuję děkuji hvala teşekkürler спасибо дякую`)

// apart divides a text into its words.
func apart(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\''
	})
}

var (
	clauses = regexp.MustCompile(`[.!?;\n。！？؟।]+`)
	pieces  = regexp.MustCompile(`[,，、،:]+`)
)

// mostApart is how many words are between the one that asks and the name of the language.
const mostApart = 4

// Wish returns the language in which a customer asks to be answered: "please answer in German", "auf
// Deutsch bitte", "по-русски". ok is false where the text asks for none. It takes the name of a language
// and a word of speaking, or a message that says nothing else: the name of a country is no wish.
func Wish(text string) (l Language, ok bool) {
	if runes := []rune(text); len(runes) > 2*mostRunes { // letters end with wishes
		text = string(runes[:mostRunes]) + "\n" + string(runes[len(runes)-mostRunes:])
	}
	for _, clause := range clauses.Split(text, -1) {
		code := wishedUnspaced(clause)
		if code == "" {
			code = wished(clause)
		}
		if code != "" {
			l, ok = named(code)
		}
	}
	return l, ok
}

// wished returns the language that a clause asks for; "" for none.
func wished(clause string) string {
	all := apart(clause)
	if code := onlyName(all); code != "" {
		return code
	}
	for _, piece := range pieces.Split(clause, -1) {
		words := apart(piece)
		code, at := nameIn(words)
		if code == "" {
			continue
		}
		if onlyName(words) == code && len(words) > 1 { // "answer me, please, in German"
			words, at = all, slices.Index(all, words[at])
		}
		if !refuses(words) && joined(words, at) && asked(words, at) {
			return code
		}
	}
	return ""
}

// nameIn returns the language that is named last, and where; "" for none.
func nameIn(words []string) (code string, at int) {
	for i, word := range words {
		found, place := meant(word)
		if found == "" || place && !near(words, i, beside) || i+1 < len(words) && strings.HasPrefix(words[i+1], "repub") {
			continue
		}
		code, at = found, i
	}
	return code, at
}

// near reports whether one of some words stands next to the one at i.
func near(words []string, i int, some []string) bool {
	return i > 0 && slices.Contains(some, words[i-1]) || i+1 < len(words) && slices.Contains(some, words[i+1])
}

// onlyName returns the language of a message that says nothing but its name, perhaps with a please.
func onlyName(words []string) string {
	code, _ := nameIn(words)
	for _, word := range words {
		if is, _ := meant(word); (is == "" || is != code) && !slices.Contains(with, word) && !slices.Contains(beside, word) {
			return ""
		}
	}
	return code
}

// joined reports whether the name at i is said of the language, and not of things or people: "in German",
// "speak German", "the German language".
func joined(words []string, at int) bool {
	name, i := words[at], at-1
	if slices.ContainsFunc(adverbs, func(end string) bool { return strings.HasSuffix(name, end) }) || at+1 < len(words) && slices.Contains(after, words[at+1]) {
		return true
	}
	if strings.HasPrefix(name, "بال") || strings.HasPrefix(name, "ב") || i >= 0 && (words[i] == "اللغة" || words[i] == "باللغة") {
		return true
	}
	for i >= 0 && (slices.Contains(beside, words[i]) || words[i] == "het") && !slices.Contains(before, words[i]) {
		i--
	}
	if i >= 0 && slices.Contains(articles, words[i]) && at+1 < len(words) && slices.Contains(beside, words[at+1]) {
		i--
	}
	if at+1 < len(words) && slices.Contains(infinitives, words[at+1]) {
		return true
	}
	if i < 0 {
		return at+1 < len(words) && asks(words[at+1])
	}
	return slices.Contains(before, words[i]) || asks(words[i]) || turns(words, i, at)
}

// turns reports whether words ask to switch to the language at the end of them, after the word at i.
func turns(words []string, i, at int) bool {
	ends := at+1 == len(words) || slices.Contains(with, words[at+1])
	return ends && slices.Contains(towards, words[i]) && slices.ContainsFunc(words[:i], func(word string) bool {
		return slices.ContainsFunc(turning, func(begin string) bool { return strings.HasPrefix(word, begin) })
	})
}

// asked reports whether a word that asks is near the name at i.
func asked(words []string, at int) bool {
	for i, word := range words {
		if i-at > mostApart || at-i > mostApart || !asks(word) {
			continue
		}
		if i == 0 || !slices.Contains(either, word) || slices.Contains(likely, words[i-1]) {
			return true
		}
	}
	return false
}

func asks(word string) bool {
	if _, rest, is := strings.Cut(word, "'"); is { // "m'écrire"
		word = rest
	}
	reported := slices.ContainsFunc(reports, func(told string) bool {
		begin, is := strings.CutSuffix(told, "*")
		return word == told || is && strings.HasPrefix(word, begin)
	})
	return !reported && slices.ContainsFunc(asking, func(begin string) bool { return begins(word, begin, len(word)) })
}

// refuses reports whether words say what is not wished, what was received, or ask about someone who speaks
// a language.
func refuses(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(refusing, word) })
}

//nolint:gochecknoglobals // an immutable table
var refusing = strings.Fields(`not don't cannot can't nicht kein pas no non não niet inte ikke не nie ne nem do does who got received had bekam erhielt erhalten bekommen reçu recibí recebi ricevuto kreeg
	gekregen fick fik fikk dostałem dostałam otrzymałem dostal dostala получил получила отримав отримала kaptam aldım`)

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

// meant returns the language whose name a word begins with, and whether it is a country's too.
func meant(word string) (code string, place bool) {
	const article = 5 // as of "dell'italiano"; what is longer has an ending, as "Almanya'da"
	if first, rest, is := strings.Cut(word, "'"); is && len(first) <= article && rest != "s" {
		word = rest
	} else if is {
		word = first
	}
	first, _ := utf8.DecodeRuneInString(word)
	if isUnspaced(first) {
		first = 0
	}
	for _, n := range byFirst[first] {
		if begins(word, n.name, ending) {
			return n.code, slices.Contains(places, word)
		}
	}
	return "", false
}

// isUnspaced reports whether names stand anywhere in the words of a script, whose words begin with articles
// and prepositions. Scripts without any blanks have wishedUnspaced.
func isUnspaced(r rune) bool { return unicode.In(r, unicode.Arabic, unicode.Hebrew) }

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
