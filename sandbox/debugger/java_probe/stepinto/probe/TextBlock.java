package stepinto.probe;

/** The text of a text block, its common indentation taken away; escapes are left as they are. */
final class TextBlock {
    private TextBlock() {}

    static String content(String raw) {
        String[] lines = raw.split("\n", -1);
        int common = Integer.MAX_VALUE;
        for (int at = 0; at < lines.length; at++) {
            boolean counts = !lines[at].trim().isEmpty() || at == lines.length - 1;
            common = counts ? Math.min(common, indentation(lines[at])) : common;
        }
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < lines.length; at++) {
            String line = lines[at];
            String rest = line.substring(Math.min(common, indentation(line)));
            text.append(rest.replaceAll("[ \t]+$", ""));
            text.append(at < lines.length - 1 ? "\n" : "");
        }
        return text.toString();
    }

    private static int indentation(String line) {
        int at = 0;
        while (at < line.length() && Character.isWhitespace(line.charAt(at))) {
            at++;
        }
        return at;
    }
}
