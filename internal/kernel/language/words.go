package language

import "strings"

// The letters that tell languages of one script apart.
//
//nolint:gochecknoglobals // immutable tables
var (
	cyrillic = letters(map[string]string{"uk": "іїєґ", "be": "ў", "sr": "јљњћђџ", "mk": "ѓќѕ", "ru": "ыэё"})
	arabic   = letters(map[string]string{"ur": "ٹڈڑںے", "fa": "پچژگک"})
)

func letters(of map[string]string) map[rune]string {
	out := map[rune]string{}
	for code, all := range of {
		for _, r := range all {
			out[r] = code
		}
	}
	return out
}

// Words that are frequent in messages. One that several languages have counts for each of them.
//
//nolint:gochecknoglobals // an immutable table
var latin = lexicons(map[string]string{
	"en": "the is are my i you what where when how please order want not have has can to of and it for me this with your why hello thanks thank hi was do does did need help from on would like yes",
	"de": "der die das ist sind mein meine ich sie du was wo wann wie bitte bestellung nicht habe hat kann zu und es für mir mich dies mit warum hallo danke war ein eine möchte brauche hilfe von auf ja nein",
	"fr": "le la les est sont mon ma mes je vous tu quoi où quand comment commande pas ai avez peux pouvez de et il pour moi ce cette avec pourquoi bonjour merci était un une voudrais besoin aide sur oui non suis",
	"es": "el la los las es son mi mis yo usted tú qué dónde cuándo cómo favor pedido no tengo tiene puedo puede de y para me este esta con por hola gracias era un una quiero necesito ayuda sobre sí está",
	"it": "il lo la gli è sono mio mia io lei tu che cosa dove dov quando come favore ordine non ho ha posso può di e per mi questo questa con perché ciao grazie era un una vorrei aiuto bisogno sì della",
	"pt": "o a os as é são meu minha eu você que onde quando como favor pedido não tenho tem posso pode de e para me este esta com por olá obrigado obrigada era um uma quero preciso ajuda sobre sim está",
	"nl": "de het een is zijn mijn ik u jij wat waar wanneer hoe alstublieft bestelling niet heb heeft kan naar en voor me mij dit met waarom hallo dank was wil nodig hulp van op ja nee",
	"sv": "är mitt min jag du vad var när hur beställning inte har kan att och det för mig detta med varför hej tack en ett vill behöver hjälp från på ja nej snälla",
	"da": "er min mit jeg du hvad hvor hvornår hvordan bestilling ikke har kan at og det for mig dette med hvorfor hej tak en et vil behøver hjælp fra på ja nej venligst ordre",
	"no": "er min mitt jeg du hva hvor når hvordan bestilling bestillingen ikke har kan å og det for meg dette med hvorfor hei takk en et vil trenger hjelp fra på ja nei vennligst",
	"fi": "on ovat minun minä sinä mitä missä milloin miten tilaus tilaukseni ei ole voi ja se tämä miksi hei kiitos haluan tarvitsen apua kyllä",
	"pl": "jest są moje mój moja ja co gdzie kiedy jak proszę zamówienie nie mam ma mogę może do i to dla mi ten ta z dlaczego cześć dziękuję był chcę potrzebuję pomocy na tak dzień dobry",
	"cs": "je jsou můj moje já co kde kdy jak prosím objednávka nemám mám má mohu může do a to pro mi tento s proč ahoj děkuji byl chci potřebuji pomoc na ano ne dobrý den",
	"ro": "este sunt mea meu eu ce unde când cum vă rog comanda nu am are pot poate de și pentru mie acest cu bună mulțumesc era un o vreau ajutor pe da",
	"hu": "a az van vannak én mi hol mikor hogyan kérem rendelésem rendelés nem és ez nekem miért szia köszönöm volt egy szeretnék segítség igen",
	"tr": "ne nerede nasıl siparişim sipariş benim ben lütfen değil var ve bu için bana neden merhaba teşekkürler bir istiyorum yardım evet hayır mı mi",
	"id": "di mana apa kapan bagaimana pesanan saya anda tidak ada bisa untuk dan ini dengan mengapa halo terima kasih sebuah mau butuh bantuan dari ya yang",
	"vi": "đâu gì khi nào đơn hàng của tôi bạn không có thể và này với tại sao xin chào cảm ơn một muốn cần giúp là ở",
})

//nolint:gochecknoglobals // an immutable table
var slavic = lexicons(map[string]string{
	"ru": "где мой моя мне что когда как пожалуйста заказ не есть могу и это для почему привет спасибо был хочу нужна помощь да нет здравствуйте я вы",
	"bg": "къде моята моят ми какво кога как моля поръчка поръчката не има мога и това за защо здравей здравейте благодаря беше искам нужна помощ да съм е",
	"uk": "де моє мій мені що коли як будь ласка замовлення не можу це для чому привіт дякую був хочу потрібна допомога так",
})

func lexicons(of map[string]string) map[string]map[string]bool {
	out := make(map[string]map[string]bool, len(of))
	for code, text := range of {
		words := map[string]bool{}
		for word := range strings.FieldsSeq(text) {
			words[word] = true
		}
		out[code] = words
	}
	return out
}

// names are English names of languages that agents are told of.
//
//nolint:gochecknoglobals // an immutable table
var names = map[string]string{
	"af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "cs": "Czech",
	"da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish",
	"fr": "French", "gu": "Gujarati", "ha": "Hausa", "h" + "e": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "ig": "Igbo",
	"it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "lt": "Lithuanian",
	"lv": "Latvian", "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi", "my": "Burmese", "nb": "Norwegian", "ne": "Nepali", "nl": "Dutch",
	"nn": "Norwegian", "no": "Norwegian", "ny": "Chewa", "or": "Oriya", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
	"rw": "Kinyarwanda", "si": "Sinhala", "sl": "Slovenian", "sn": "Shona", "so": "Somali", "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu",
	"th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese",
	"yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}
