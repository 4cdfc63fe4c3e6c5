package stepinto.probe;

/** Names of types as {@code Class.forName} takes them. */
final class JniNames {
    private JniNames() {}

    /** {@code int[]} as {@code [I}, {@code a.B[][]} as {@code [[La.B;}; other names as they are. */
    static String of(String binaryName) {
        int array = binaryName.indexOf('[');
        if (array < 0) {
            return binaryName;
        }
        StringBuilder text = new StringBuilder();
        for (int at = array; at < binaryName.length(); at += 2) {
            text.append('[');
        }
        String item = binaryName.substring(0, array);
        int primitive = " boolean byte char short int long float double ".indexOf(" " + item + " ");
        return text + (primitive < 0 ? "L" + item + ";" : letter(item));
    }

    private static String letter(String primitive) {
        switch (primitive) {
            case "boolean":
                return "Z";
            case "long":
                return "J";
            default:
                return primitive.substring(0, 1).toUpperCase(java.util.Locale.ROOT);
        }
    }
}
